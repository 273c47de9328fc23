// ratio = tokens of the pack / computed tokens; kAuto folds where it is at least min_ratio.

#include "core/prefix/fold_settings.h"

#include <algorithm>

namespace xrun {

PackLimits pack_limits(int64_t max_tokens, const FoldSettings& settings) {
  PackLimits limits(max_tokens);
  limits.fold = settings.folds();
  limits.min_run = settings.min_run;
  limits.frequency_class = settings.frequency_class;
  return limits;
}

std::optional<FoldedPack> fold_where_it_pays(const PackedBatch& batch, const FoldSettings& settings,
                                             const std::vector<int64_t>& frequency_classes,
                                             const std::vector<int32_t>& token_keys) {
  if (!settings.folds() || batch.segment_count() < 2) return std::nullopt;
  FoldOptions options{.min_run = settings.min_run,
                      .frequency_classes = frequency_classes,
                      .token_keys = token_keys};
  // A plan has no model to ask, only the settings.
  if (frequency_classes.empty() && settings.frequency_class) {
    for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
      options.frequency_classes.push_back(
          settings.frequency_class(batch.cu_seqlens[s + 1] - batch.cu_seqlens[s]));
    }
  }
  FoldedPack fold = fold_pack(batch, options);
  // A fold without a shared run is the pack itself, at the cost of indirection.
  const bool shares = fold.token_count() < fold.logical_tokens();
  // The plan counted computed tokens, so this pack fits only folded.
  const bool overflows = settings.max_tokens > 0 && batch.token_count() > settings.max_tokens;
  const bool pays =
      settings.mode == FoldMode::kAlways || overflows || fold.ratio() >= settings.min_ratio;
  if (!shares || !pays) return std::nullopt;
  return fold;
}

// `packs` are all packs of one step: a row shared across packs is weighed once.
void weigh_shared_rows(std::vector<PackedBatch>& packs, const FoldSettings& settings) {
  if (settings.rows == SharedRows::kPerSample) return;
  struct StepSegment {
    int64_t segment_id;
    PackedBatch* pack;
    int32_t segment;
  };
  std::vector<StepSegment> segments;
  for (PackedBatch& pack : packs) {
    for (size_t s = 0; s < pack.segment_id.size(); ++s) {
      segments.push_back({pack.segment_id[s], &pack, static_cast<int32_t>(s)});
    }
  }
  // In the order of the segments' ids, not of the packs: which segment is the first to train a
  // shared row must not depend on the plan.
  std::stable_sort(segments.begin(), segments.end(),
                   [](const auto& a, const auto& b) { return a.segment_id < b.segment_id; });
  // One logical pack of the whole step, whose loss rows point back into the packs by `weight`.
  PackedBatch step;
  std::vector<float*> weight;  // by loss row: its weight in the packs
  for (const StepSegment& entry : segments) {
    const SegmentTokens cut = entry.pack->segment_tokens(entry.segment);
    step.append({}, cut.ids, cut.trained);
    LossRows& rows = entry.pack->rows;
    // Loss rows are sorted by segment.
    const auto [first, last] =
        std::equal_range(rows.segment.begin(), rows.segment.end(), entry.segment);
    for (auto row = first; row != last; ++row) {
      weight.push_back(&rows.weight[static_cast<size_t>(row - rows.segment.begin())]);
    }
  }
  // append wrote the default weight 1. The packs' own weights decide which rows kOwnOnce counts.
  for (size_t r = 0; r < weight.size(); ++r) step.rows.weight[r] = *weight[r];
  // min_run = 1: the weights depend only on equal prefixes, however short, and not on the tokens
  // that a pack computes once.
  const std::vector<float> weights =
      row_weights(step, fold_pack(step, {.min_run = 1}), settings.rows);
  for (size_t r = 0; r < weight.size(); ++r) *weight[r] = weights[r];
}

}  // namespace xrun
