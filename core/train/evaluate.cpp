// metric = sum_i w_i x_i / sum_i w_i over the whole set, in double.

#include "core/train/evaluate.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>

#include "core/base/philox.h"
#include "core/data/packs/data_set.h"
#include "core/dist/agreement.h"
#include "core/dist/ranks.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/data_batch.h"
#include "core/train/metric_sums.h"
#include "core/train/models/logprob_source.h"
#include "core/train/weighted_loss.h"

namespace xrun {
namespace {

// Rows packed at once, to bound the memory. Packs decide micro-batches and these the last bits of
// the means, so a change of this number changes results.
constexpr int64_t kRowsAtOnce = 1024;

bool all_finite(const ObjectiveResult& result) {
  for (const auto& [unit, loss] : result.losses) {
    // One sum per loss: a single NaN or infinity shows in it, and the host reads one number.
    if (!std::isfinite(loss.detach().to(at::kDouble).sum().item().toDouble())) return false;
  }
  return true;
}

PackedBatch with_every_target(const PackedBatch& pack) {
  PackedBatch all;
  for (int64_t s = 0; s < pack.segment_count(); ++s) {
    const auto at = static_cast<size_t>(s);
    const PackedBatch::Segment segment{pack.row_id[at],     pack.pair_id[at], pack.group_id[at],
                                       pack.segment_id[at], pack.source[at],  pack.side[at]};
    const std::vector<int32_t> ids = pack.segment_tokens(s).ids;
    all.append(segment, ids, std::vector<uint8_t>(ids.size(), 1));
  }
  return all;
}

// A run takes the first device of its kind.
std::vector<at::Generator> generators() {
  std::vector<at::Generator> all = {at::globalContext().defaultGenerator(c10::kCPU)};
  const auto kind = at::getAccelerator();
  if (!kind) return all;
  all.push_back(at::globalContext().defaultGenerator(c10::Device(*kind, 0)));
  return all;
}

}  // namespace

Metrics evaluate(const BatchStream& next, const Objective& objective,
                 const EvaluateOptions& options) {
  const at::NoGradGuard no_grad;
  // An evaluation must not move the random stream of the training around it.
  const RandomScope random;
  // The upper half tells evaluations of one step apart, the lower half their micro-batches.
  const auto number = static_cast<uint64_t>(options.number) << 32;
  Ranks* const ranks = options.ranks;
  int64_t seeds = 0, tokens = 0;
  MetricSums sums;
  UnitTotals weights;
  agree(ranks, "evaluation", [&] {
    while (const std::shared_ptr<Batch> batch = next()) {
      for (const auto& micro : batch->micros()) {
        // The empty micro-batch of a batch without rows.
        if (micro->token_count() == 0) continue;
        // Before the deal: every rank needs the weights of all, also of micro-batches that others
        // score.
        add_unit_weights(weights, *micro);
        const int64_t own = seeds++;
        const int64_t before = tokens;
        tokens += micro->token_count();
        if (ranks != nullptr && own % ranks->size() != ranks->rank()) continue;
        if (options.poll) options.poll(before);
        micro->clear_scored();
        at::manual_seed(philox_u64(options.seed, kStreamEvaluate,
                                   static_cast<uint64_t>(options.step),
                                   number | static_cast<uint64_t>(own)));
        const ObjectiveResult result = objective(*micro);
        check_result(result, *micro);
        if (!all_finite(result)) check_finite(result, *micro, 0, batch->micros().size());
        sums.begin(own);
        sums.add_unit_losses(result, *micro);
        sums.add_source_losses(result, *micro);
        sums.add_metrics(result, *micro);
        sums.add_scored(*micro, {options.policy});
        // Now, not at the end: the forwards of a whole set would not fit into memory.
        micro->close();
      }
    }
  });
  // Weight 0 is not an error: a recipe may switch a validation source off.
  if (weights[Unit::kToken] == 0) return {};
  return sums.read({}, ranks).metrics;
}

Metrics evaluate(const DataSet& set, int64_t max_tokens, const Objective& objective,
                 const EvaluateOptions& options) {
  int64_t done = 0;
  std::optional<ExtraColumns> own;
  const ExtraColumns& extra = options.extra != nullptr ? *options.extra : own.emplace(set);
  const BatchStream next = [&]() -> std::shared_ptr<Batch> {
    if (done >= set.size()) return nullptr;
    std::vector<int64_t> rows;
    for (const int64_t end = std::min(set.size(), done + kRowsAtOnce); done < end; ++done) {
      rows.push_back(set.unit(done));
    }
    BatchInfo info;
    info.step = options.step;
    info.seed = options.seed;
    info.device = options.device;
    info.fold = options.fold;
    info.tokenizer = options.tokenizer;
    info.evaluation = true;
    return data_batch(set, extra, rows, max_tokens, std::move(info));
  };
  return evaluate(next, objective, options);
}

std::vector<float> token_scores(LogprobSource& source, const PackedBatch& pack, BatchInfo info) {
  // NaN stays at the first token of each segment, which nothing predicts.
  std::vector<float> scores(pack.tokens.size(), std::numeric_limits<float>::quiet_NaN());
  if (pack.segment_count() == 0) return scores;
  Batch batch(std::move(info), {with_every_target(pack)});
  const at::Tensor values = source.token_logprob(batch).cpu().contiguous();
  const float* next = values.const_data_ptr<float>();
  // Values come in batch order; the pack has its own.
  for (const int64_t segment : batch.segment_order()) {
    const auto s = static_cast<size_t>(segment);
    // + 1: the first token of a segment has no value.
    for (int32_t t = pack.cu_seqlens[s] + 1; t < pack.cu_seqlens[s + 1]; ++t) {
      scores[static_cast<size_t>(t)] = *next++;
    }
  }
  batch.close();
  return scores;
}

RandomScope::RandomScope() {
  for (at::Generator& generator : generators()) {
    const std::lock_guard lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  }
}

RandomScope::~RandomScope() {
  for (auto& [generator, state] : states_) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

}  // namespace xrun
