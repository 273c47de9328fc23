// n packs that share C tokens compute (n - 1) C fewer. The prefix's blocks are recomputed in its
// backward, which is a third of its work, so the saving counts as (n - 1) C - C / 3.

#include "core/prefix/shared_prefix.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/data/packs/prefix_trie.h"
#include "core/prefix/folded_pack.h"

namespace xrun {

namespace {

// Packs of one cluster begin with a segment of it, so their first segments tell if they share a
// prefix.
TokenList first_segment(const PackedBatch& pack) {
  if (pack.segment_count() == 0) return {};
  return TokenList(pack.tokens).first(static_cast<size_t>(pack.cu_seqlens[1]));
}

// The folded packs of a step, each made at its first use.
class FoldedPacks {
 public:
  FoldedPacks(const std::vector<const PackedBatch*>& packs, int64_t min_run)
      : packs_(packs), min_run_(min_run), folds_(packs.size()) {}

  const FoldedPack& operator[](size_t index) {
    if (!folds_[index]) folds_[index] = fold_pack(*packs_[index], {.min_run = min_run_});
    return *folds_[index];
  }
  // Returns the first node's tokens, without the last token of the pack.
  TokenList first_run(size_t index) {
    const FoldedPack& fold = (*this)[index];
    if (fold.node_count() == 0) return {};
    // The forward of the rest needs at least one token.
    const int64_t run = std::min<int64_t>(fold.node_begin[1], fold.token_count() - 1);
    return TokenList(fold.tokens).first(static_cast<size_t>(run));
  }

 private:
  const std::vector<const PackedBatch*>& packs_;
  int64_t min_run_;
  std::vector<std::optional<FoldedPack>> folds_;
};

// Returns the prefix of the packs from `begin` on. If there is none, it is empty and `end` is the
// next pack.
SharedPrefix prefix_from(const std::vector<const PackedBatch*>& packs, FoldedPacks& folds,
                         size_t begin, int64_t min_run) {
  SharedPrefix prefix{.begin = begin, .end = begin + 1};
  const auto alike = [&](size_t index) {  // without folding the packs: most share nothing
    return common_prefix(first_segment(*packs[begin]), first_segment(*packs[index])) >= min_run;
  };
  if (prefix.end == packs.size() || !alike(prefix.end)) return prefix;
  TokenList run = folds.first_run(begin);
  int64_t saved = 0;
  for (; prefix.end < packs.size() && alike(prefix.end); ++prefix.end) {
    const int64_t least = common_prefix(run, folds.first_run(prefix.end));
    // n packs save (n - 1) C tokens. Each further pack adds C and may shorten C for all.
    const int64_t more = least * static_cast<int64_t>(prefix.end - begin);
    if (least < min_run || more <= saved) break;
    run = run.first(static_cast<size_t>(least));
    saved = more;
  }
  // No pack joined: the prefix stays empty.
  if (saved == 0) return prefix;
  prefix.tokens.assign(run.begin(), run.end());
  const auto positions = folds[begin].position_ids.begin();
  prefix.position_ids.assign(positions, positions + prefix.size());
  prefix.shortest = std::numeric_limits<int64_t>::max();
  for (size_t p = begin; p < prefix.end; ++p) {
    prefix.separate += folds[p].token_count();
    for (size_t s = 0; s + 1 < packs[p]->cu_seqlens.size(); ++s) {
      const int64_t length = packs[p]->cu_seqlens[s + 1] - packs[p]->cu_seqlens[s];
      prefix.shortest = std::min(prefix.shortest, length);
      prefix.longest = std::max(prefix.longest, length);
    }
  }
  prefix.together = prefix.separate - saved;
  return prefix;
}

// Compares the work without the prefix with the work that is left, like the ratio of one pack.
bool pays(const SharedPrefix& prefix, const FoldSettings& settings) {
  if (prefix.size() == 0 || settings.mode == FoldMode::kAlways) return prefix.size() > 0;
  const double work = static_cast<double>(prefix.together) + static_cast<double>(prefix.size()) / 3;
  return static_cast<double>(prefix.separate) >= settings.min_ratio * work;
}

}  // namespace

// Packs are already in an order that puts those of a cluster side by side.
std::vector<SharedPrefix> shared_prefixes(const std::vector<const PackedBatch*>& packs,
                                          const FoldSettings& settings) {
  std::vector<SharedPrefix> found;
  if (!settings.folds() || packs.size() < 2) return found;
  FoldedPacks folds(packs, settings.min_run);
  for (size_t begin = 0; begin < packs.size();) {
    SharedPrefix prefix = prefix_from(packs, folds, begin, settings.min_run);
    // The next prefix begins after these packs, even if sharing theirs does not pay.
    begin = prefix.end;
    if (pays(prefix, settings)) found.push_back(std::move(prefix));
  }
  return found;
}

}  // namespace xrun
