#pragma once
// The form of a distillation loss: the columns at which two distributions are compared, the means
// that make one distribution of a chunk, and the treatment of the other columns.

#include "core/distill/kd_options.h"

namespace xrun {

enum class SupportColumns {
  kNone,
  kTop,     // the top k of the teacher's mean log-probabilities, chosen for each chunk
  kAll,     // the whole vocabulary
  kCommon,  // pairs of common tokens
};

// The L1 distance of the probabilities outside the support, in falling order on each side.
enum class SortedRest {
  kNone,
  kTruncated,  // both sides are cut to the length of the shorter and to top_k
  kPadded,     // the shorter side is padded with zeros
};

struct SupportForm {
  SupportColumns columns = SupportColumns::kNone;
  ChunkMean student = ChunkMean::kGeometric, teacher = ChunkMean::kGeometric;
  bool projected = false;  // the student is projected onto the teacher's columns
  // True: the teacher is normalised on the columns token by token, before the mean. False: both
  // sides are normalised after it, on top and all columns. Common columns are not normalised.
  bool normalised_by_token = false;
  SortedRest rest = SortedRest::kNone;
  bool jensen_shannon = false;  // on the columns, with beta, instead of a KL
  bool squared = true;          // the loss is multiplied by the squared temperature

  bool needs_map() const { return projected || columns == SupportColumns::kCommon; }
  // The loss is unchanged if a distribution is scaled; a chain's later tokens then divide out.
  bool divides_by_sum() const { return projected || needs_one_vocabulary(); }
  // Of the student the loss reads only log-probabilities at the support, or at the columns that are
  // projected onto it. Elsewhere the gradient of a row's logits is then 0 or, of a projected loss,
  // a multiple of the row's probabilities.
  bool reads_support_alone() const {
    if (projected) return student == ChunkMean::kArithmetic;
    return columns == SupportColumns::kTop && student != ChunkMean::kArithmetic;
  }
  bool needs_one_vocabulary() const {
    return !projected && (columns == SupportColumns::kTop || columns == SupportColumns::kAll);
  }
};

// Returns the published form of the loss. If options.mean is set it replaces the means of both
// sides, and a projected teacher is normalised after it.
SupportForm support_form(const KdOptions& options);

}  // namespace xrun
