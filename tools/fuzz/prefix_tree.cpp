// Takes lists of small numbers as a rollout group, as the nodes and paths of a tree, or as the
// segments of a pack: an Error, or a tree with every token where it belongs. The first byte chooses
// one of the three; a byte 255 ends a list.

#include <algorithm>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/data/packs/pack_plan.h"
#include "core/prefix/folded_pack.h"
#include "core/prefix/prefix_fold.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

using NumberLists = std::vector<std::vector<int64_t>>;

NumberLists split_lists(std::string_view bytes, int64_t lowest) {
  NumberLists lists(1);
  for (const char byte : bytes) {
    const int64_t value = static_cast<unsigned char>(byte);
    if (value == 255) {
      lists.emplace_back();
    } else {
      lists.back().push_back(value + lowest);
    }
  }
  return lists;
}

void check_group(NumberLists lists) {
  RolloutGroup group;
  group.prompt_ids = lists[0];
  group.completions.assign(lists.begin() + 1, lists.end());
  const FoldedRollouts folded = fold_shared_prefix(group, -100);
  size_t tokens = 0;
  for (const std::vector<int64_t>& completion : group.completions) tokens += completion.size();
  const int64_t labels = std::count_if(folded.labels.begin(), folded.labels.end(),
                                       [](int64_t label) { return label != -100; });
  fuzz_check(folded.input_ids.size() == group.prompt_ids.size() + tokens,
             "the number of tokens differs");
  fuzz_check(folded.labels.size() == folded.input_ids.size() &&
                 folded.position_ids.size() == folded.input_ids.size(),
             "fields of different lengths");
  // A completion's last token has no successor, and its first is not a label.
  fuzz_check(labels == static_cast<int64_t>(tokens - group.completions.size()),
             "the number of labels differs");
  tree_slices(folded.node_lengths, folded.sample_paths);
}

void check_slices(NumberLists lists) {
  const std::vector<int64_t> lengths = lists[0];
  lists.erase(lists.begin());
  const TreeSlices slices = tree_slices(lengths, lists);
  int64_t tokens = 0;
  for (const int64_t length : lengths) tokens += length;
  const size_t count = slices.types.size();
  fuzz_check(slices.q_ranges.size() == count && slices.k_ranges.size() == count,
             "fields of different lengths");
  std::set<std::pair<TokenRange, TokenRange>> rectangles;
  for (size_t i = 0; i < count; ++i) {
    const auto [q0, q1] = slices.q_ranges[i];
    const auto [k0, k1] = slices.k_ranges[i];
    fuzz_check(0 <= q0 && q0 <= q1 && q1 <= tokens, "a q range outside the tokens");
    fuzz_check(0 <= k0 && k0 <= k1 && k1 <= tokens, "a k range outside the tokens");
    // Empty rectangles may repeat.
    if (q0 < q1 && k0 < k1) {
      fuzz_check(rectangles.emplace(slices.q_ranges[i], slices.k_ranges[i]).second,
                 "a rectangle twice");
    }
  }
  fuzz_check(slices.sample_token_ranges.size() == lists.size(), "the number of samples differs");
}

PackedBatch pack_of(const std::vector<std::vector<int32_t>>& segments) {
  PackedBatch batch;
  for (const std::vector<int32_t>& ids : segments) {
    std::vector<uint8_t> trained;
    for (const int32_t id : ids) trained.push_back(id % 3 != 0);
    if (!ids.empty()) batch.append({}, ids, trained);
  }
  batch.validate(256);
  return batch;
}

void check_plan(const std::vector<std::vector<int32_t>>& segments, int64_t min_run) {
  std::vector<UnitTokens> units;
  for (const std::vector<int32_t>& ids : segments) units.push_back({ids});
  PackLimits limits(40);
  limits.fold = true;
  limits.min_run = min_run;
  std::vector<int> seen(units.size(), 0);
  for (const std::vector<int64_t>& pack : plan_folded_packs(units, limits)) {
    std::vector<UnitTokens> chosen;
    for (const int64_t unit : pack) {
      ++seen.at(static_cast<size_t>(unit));
      chosen.push_back(units[static_cast<size_t>(unit)]);
    }
    fuzz_check(folded_tokens(chosen, limits) <= 40, "a pack beyond its limit");
  }
  fuzz_check(seen == std::vector<int>(units.size(), 1), "a unit is not in exactly one pack");
}

void check_pack(std::string_view bytes) {
  if (bytes.empty()) return;
  const int64_t min_run = static_cast<unsigned char>(bytes[0]) % 9;  // 0 is an Error
  std::vector<std::vector<int32_t>> segments;
  for (const std::vector<int64_t>& list : split_lists(bytes.substr(1, 512), 0)) {
    segments.emplace_back(list.begin(), list.end());
  }
  const PackedBatch batch = pack_of(segments);
  const FoldedPack fold = fold_pack(batch, {.min_run = min_run});
  fold.validate(batch);
  std::set<std::vector<int32_t>> prefixes;
  for (const std::vector<int32_t>& ids : segments) {
    for (size_t n = 1; n <= ids.size(); ++n) {
      prefixes.emplace(ids.begin(), ids.begin() + static_cast<int64_t>(n));
    }
  }
  // A tree has a token for each different prefix; runs below min_run stay apart and add some.
  const size_t fewest = prefixes.size();
  fuzz_check(min_run > 1 ? fold.tokens.size() >= fewest : fold.tokens.size() == fewest,
             "the number of tokens in the tree differs");
  check_plan(segments, min_run);
}

}  // namespace

void fuzz_prefix_tree(std::string_view input) {
  if (input.empty()) return;
  const std::string_view rest = input.substr(1);
  try {
    switch (static_cast<unsigned char>(input[0]) % 3) {
      case 0: check_group(split_lists(rest, 0)); break;
      // From -1 on, so that wrong lengths and indices occur.
      case 1: check_slices(split_lists(rest, -1)); break;
      default: check_pack(rest); break;
    }
  } catch (const Error&) {
  }
}

}  // namespace xrun
