#pragma once
// Gives the rows of a chunk common top columns; the head chooses columns for each row separately.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/ops/linear_head.h"

namespace xrun {

// Replaces the top columns of rows that share a chunk by those of the chunk: the k with the highest
// mean log-probability, in falling order, equal ones by rising id. top_logprob then has each row's
// own log-probability there, with the bits that xrun.kd computes from the same hidden states. Rows
// that are alone in their chunk keep their top k.
//   head    of these rows, with top_k = k, which may be 0; `options` are those it was computed with
//   hidden  [R, D], weight [V, D], on one device
//   chunk   [R], never falling
void share_chunk_columns(HeadResult& head, const at::Tensor& hidden, const at::Tensor& weight,
                         const std::vector<int32_t>& chunk, const HeadOptions& options);

}  // namespace xrun
