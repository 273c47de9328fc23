// ratio = tokens of the pack / computed tokens; kAuto folds where it is at least min_ratio.

#include "core/prefix/fold_settings.h"

namespace xrun {

PackLimits pack_limits(int64_t max_tokens, const FoldSettings& settings) {
  PackLimits limits(max_tokens);
  limits.fold = settings.folds();
  limits.min_run = settings.min_run;
  limits.frequency_class = settings.frequency_class;
  return limits;
}

std::optional<FoldedPack> fold_where_it_pays(const PackedBatch& batch, const FoldSettings& settings,
                                             const std::vector<int64_t>& frequency_classes) {
  if (!settings.folds() || batch.segment_count() < 2) return std::nullopt;
  FoldedPack fold =
      fold_pack(batch, {.min_run = settings.min_run, .frequency_classes = frequency_classes});
  const bool shares = fold.token_count() < fold.logical_tokens();
  const bool overflows = settings.max_tokens > 0 && batch.token_count() > settings.max_tokens;
  const bool pays =
      settings.mode == FoldMode::kAlways || overflows || fold.ratio() >= settings.min_ratio;
  if (!shares || !pays) return std::nullopt;
  return fold;
}

void weigh_shared_rows(PackedBatch& batch, const FoldSettings& settings) {
  if (settings.rows == SharedRows::kPerSample) return;
  batch.rows.weight = row_weights(batch, fold_pack(batch, {.min_run = 1}), settings.rows);
}

}  // namespace xrun
