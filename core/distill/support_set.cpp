// The table of published forms.

#include "core/distill/support_set.h"

namespace xrun {

namespace {

SupportForm published_form(KdLoss loss) {
  using enum ChunkMean;
  switch (loss) {
    // X-Token (arXiv 2605.21699): the student's mean is arithmetic, since it is projected, and the
    // teacher's geometric.
    case KdLoss::kProjected:
      return {.columns = SupportColumns::kTop,
              .student = kArithmetic,
              .teacher = kGeometric,
              .projected = true,
              .normalised_by_token = true};
    // X-Token's two forms on common tokens.
    case KdLoss::kGold:
    case KdLoss::kRelaxed:
      return {.columns = SupportColumns::kCommon, .rest = SortedRest::kTruncated};
    // ULD (arXiv 2402.12030) and GOLD, with TRL's merge of a group of tokens.
    case KdLoss::kUld:
      return {.columns = SupportColumns::kNone,
              .student = kChain,
              .teacher = kChain,
              .rest = SortedRest::kPadded,
              .squared = false};
    case KdLoss::kHybrid:
      return {.columns = SupportColumns::kCommon,
              .student = kChain,
              .teacher = kChain,
              .rest = SortedRest::kPadded,
              .jensen_shannon = true,
              .squared = false};
    case KdLoss::kTopK: return {.columns = SupportColumns::kTop};
    case KdLoss::kFull: return {.columns = SupportColumns::kAll};
  }
  return {};
}

}  // namespace

SupportForm support_form(const KdOptions& options) {
  SupportForm form = published_form(options.loss);
  if (options.mean) {
    form.student = form.teacher = *options.mean;
    form.normalised_by_token = false;
  }
  return form;
}

}  // namespace xrun
