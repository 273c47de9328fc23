#include "core/model/ops/widened.h"

#include <ATen/ops/mm.h>

#include "core/model/ops/scratch.h"

namespace xrun {

at::Tensor scratch_matrix(int64_t rows, int64_t columns) {
  return scratch_floats(rows * columns).view({rows, columns});
}

at::Tensor widened(const at::Tensor& x) {
  if (x.scalar_type() == at::kFloat) return x;
  return scratch_matrix(x.size(0), x.size(1)).copy_(x);
}

void product_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b, GemmType gemm) {
  if (gemm == GemmType::kStorage || out.scalar_type() == at::kFloat) {
    at::mm_out(out, a, b);
    return;
  }
  at::Tensor wide = scratch_matrix(out.size(0), out.size(1));
  at::mm_out(wide, widened(a), widened(b));
  out.copy_(wide);
}

}  // namespace xrun
