// Lengths are in the cache's index, so many steps can be read; the loss rows and shared prefixes of
// a step are known only when its rows are read and packed.

#include "lua/bind/run/step_sizes.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/data/packs/pack.h"
#include "core/prefix/shared_prefix.h"
#include "core/rollout/rollouts.h"
#include "core/train/models/frozen_logprobs.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/step_loop.h"

namespace xrun {

namespace {

constexpr int64_t kPacked = 16;        // steps packed to count loss rows
constexpr int64_t kCounted = 200'000;  // units of a loop whose lengths are read
// Tokens of one step's answers above which only the fullest step is packed.
constexpr int64_t kManyAnswers = 1'000'000;

// Returns the longest answers to each prompt of a step; no two share their first token. They are no
// longer than `room`: sampling refuses an answer that does not fit a micro-batch, and a
// conversation ends before one.
RolloutList planned_rollouts(const StepSource& source, const std::vector<int64_t>& units,
                             int64_t room) {
  const int64_t vocab = std::max<int64_t>(source.data->policy->vocab(), 1);
  RolloutList list;
  int64_t prompt = 0;
  for (const int64_t unit : units) {
    const auto ids =
        std::make_shared<const std::vector<int32_t>>(source.data->set.prompt_ids(unit));
    const int64_t length = std::min(source.answers->tokens(), room - std::ssize(*ids));
    for (int64_t s = 0; s < source.answers->samples; ++s) {
      auto one = std::make_shared<Rollout>();
      one->row = unit;
      one->prompt = prompt;
      one->sample = s;
      one->prompt_ids = ids;
      for (int64_t t = 0; t < length; ++t) {
        one->ids.push_back(static_cast<int32_t>((s + t) % vocab));
      }
      one->logprobs.assign(one->ids.size(), 0);
      list.push_back(std::move(one));
    }
    ++prompt;
  }
  return list;
}

// Adds the packs of one step. Returns the number of items.
int64_t add_packs(const std::vector<const PackedBatch*>& packs, const FoldSettings& settings,
                  StepSizes& sizes) {
  int64_t items = 0;
  const std::vector<SharedPrefix> prefixes = shared_prefixes(packs, settings);
  auto prefix = prefixes.begin();
  for (size_t p = 0; p < packs.size(); ++p) {
    const PackedBatch& pack = *packs[p];
    const std::optional<FoldedPack> fold = fold_where_it_pays(pack, settings);
    const int64_t tokens = fold ? fold->token_count() : pack.token_count();
    sizes.tokens = std::max(sizes.tokens, tokens);
    while (prefix != prefixes.end() && prefix->end <= p) ++prefix;
    const bool held =
        prefix != prefixes.end() && prefix->begin <= p && prefix->has_one_class(settings);
    items += held && p > prefix->begin ? 0 : 1;
    sizes.rest_tokens = std::max(sizes.rest_tokens, held ? tokens - prefix->size() : tokens);
    if (held) sizes.prefix_tokens = std::max(sizes.prefix_tokens, prefix->size());
    sizes.loss_rows =
        std::max(sizes.loss_rows, fold ? std::ssize(fold->edge_target) : pack.rows.size());
  }
  return items;
}

// Packs the answers of one step. Returns the number of items.
int64_t add_rollouts(const StepLoop& loop, const StepSource& source,
                     const std::vector<int64_t>& units, StepSizes& sizes) {
  std::vector<int64_t> prompts;
  int64_t tokens = 0, most = 0;
  for (const int64_t unit : units) {
    prompts.push_back(std::ssize(source.data->set.prompt_ids(unit)));
    tokens += prompts.back();
  }
  for (const int64_t length : sizes.prompts) most += length;
  if (tokens > most) {
    sizes.prompts = std::move(prompts);
    sizes.answers = *source.answers;
  }
  BatchInfo info;
  info.max_tokens = loop.max_tokens;
  info.fold = loop.fold;
  info.row_name = [set = source.data->set](int64_t row) { return set.location(row); };
  const Rollouts rollouts(std::move(info), planned_rollouts(source, units, loop.max_tokens));
  sizes.micros = std::max(sizes.micros, std::ssize(rollouts.micros()));
  std::vector<const PackedBatch*> packs;
  for (const auto& micro : rollouts.micros()) packs.push_back(&micro->pack());
  const int64_t items = add_packs(packs, loop.fold, sizes);
  // A reference computes sampled answers in the policy's own micro-batches.
  sizes.reference_tokens = std::max(sizes.reference_tokens, sizes.tokens);
  sizes.reference_rows = std::max(sizes.reference_rows, sizes.loss_rows);
  return items;
}

// Packs a step of each set.
void add_step(const StepLoop& loop, int64_t step, StepSizes& sizes) {
  int64_t items = 0;
  for (const StepSource& source : loop.sources) {
    const DataSet& set = source.data->set;
    const std::vector<int64_t> units = set.step_units(source.plan, step);
    if (source.answers) {
      items += add_rollouts(loop, source, units, sizes);
      continue;
    }
    const std::vector<PackedBatch> packs = set.pack(units, pack_limits(loop.max_tokens, loop.fold));
    std::vector<const PackedBatch*> all;
    for (const PackedBatch& pack : packs) all.push_back(&pack);
    items += add_packs(all, loop.fold, sizes);
  }
  sizes.items = std::max(sizes.items, items);
}

// A step's sizes, from row lengths alone.
struct StepLengths {
  int64_t largest = 0;  // tokens of its largest micro-batch
  int64_t micros = 0;
  int64_t prompts = 0;  // tokens of prompts to be answered
};

StepLengths lengths_of(const StepLoop& loop, int64_t step) {
  StepLengths lengths;
  for (const StepSource& source : loop.sources) {
    const DataSet& set = source.data->set;
    std::vector<int64_t> tokens;
    for (const int64_t unit : set.step_units(source.plan, step)) {
      // A unit that fits only when folded may have more tokens.
      tokens.push_back(std::min(set.unit_tokens(unit), loop.max_tokens));
      if (source.answers) lengths.prompts += tokens.back();
    }
    if (source.answers) continue;  // their packs hold answers
    const auto packs = best_fit_decreasing(tokens, loop.max_tokens);
    lengths.micros += std::ssize(packs);
    for (const std::vector<int64_t>& pack : packs) {
      int64_t sum = 0;
      for (const int64_t unit : pack) sum += tokens[static_cast<size_t>(unit)];
      lengths.largest = std::max(lengths.largest, sum);
    }
  }
  lengths.largest = std::max(lengths.largest, lengths.prompts);
  return lengths;
}

// Returns the lengths of the prompts that a split held out; they are only answered. The sampler
// decodes them in waves, so the first ones are enough.
std::vector<int64_t> held_out_prompts(const DataSet& set) {
  constexpr size_t kMost = 1024;
  std::vector<int64_t> lengths;
  if (set.kind() != RowKind::kPrompts || set.total_rows() > kCounted) return lengths;
  int64_t next = 0;  // of the split's own rows, which ascend
  for (int64_t row = 0; row < set.total_rows() && lengths.size() < kMost; ++row) {
    if (next < set.size() && set.unit(next) == row) {
      ++next;
    } else {
      lengths.push_back(set.tokens(row));
    }
  }
  return lengths;
}

// An upper bound of the tokens of one step's answers.
int64_t answer_tokens(const StepLoop& loop) {
  int64_t tokens = 0;
  for (const StepSource& source : loop.sources) {
    if (!source.answers) continue;
    tokens += source.plan.most_units(loop.steps) * source.answers->samples *
              (source.answers->tokens() + source.data->set.longest());
  }
  return tokens;
}

}  // namespace

StepSizes sizes_of(const StepLoop& loop) {
  StepSizes sizes;
  int64_t units = 1;
  for (const StepSource& source : loop.sources) {
    units = std::max(units, source.plan.most_units(loop.steps));
    const DataSet& set = source.data->set;
    const int64_t answer = source.answers ? source.answers->tokens() : 0;
    sizes.longest = std::max(sizes.longest, set.longest() + answer);
    if (source.answers && sizes.held_out.empty()) sizes.held_out = held_out_prompts(set);
    if (set.window_length() != 0 || set.size() == 0) continue;
    const PackedBatch pack = set.canonical_pack(set.unit(0), canonical_tokens(loop.max_tokens));
    sizes.reference_tokens = std::max(sizes.reference_tokens, pack.token_count());
    sizes.reference_rows = std::max(sizes.reference_rows, pack.rows.size());
  }
  sizes.longest = std::min(sizes.longest, loop.max_tokens);
  const int64_t counted = std::min(loop.steps, std::max(kPacked, kCounted / units));
  int64_t largest = 0, fullest_step = 0;
  for (int64_t k = 0; k < counted; ++k) {
    const int64_t step = loop.steps * k / counted;
    const StepLengths lengths = lengths_of(loop, step);
    sizes.micros = std::max(sizes.micros, lengths.micros);
    if (lengths.largest <= largest) continue;
    largest = lengths.largest;
    fullest_step = step;
  }
  if (loop.steps > 0) add_step(loop, fullest_step, sizes);
  if (answer_tokens(loop) > kManyAnswers) return sizes;
  const int64_t packed = std::min(loop.steps, kPacked);
  for (int64_t k = 0; k < packed; ++k) add_step(loop, loop.steps * k / packed, sizes);
  return sizes;
}

}  // namespace xrun
