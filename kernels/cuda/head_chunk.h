#pragma once
// The vocabulary products of loss rows on CUDA: operands stay in their own type, sums are fp32. The
// CPU's twin is core/model/ops/head_chunk.h.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace xrun {

constexpr int64_t kCudaHeadRows = 4096;  // a chunk's GEMM reaches its full rate from 2048 rows up

// How many of `rows` rows of `vocab` fp32 numbers head_mb MiB keep: all, or a multiple of
// kCudaHeadRows, so that chunks are the same whatever is kept.
int64_t cuda_rows_within(int64_t head_mb, int64_t rows, int64_t vocab);

// [n, D] times [D, V] with fp32 sums, in fp32 whatever the operands are.
at::Tensor cuda_product(const at::Tensor& a, const at::Tensor& b);

// The gradients of z = x w^T, gathered over chunks of dz.
class CudaHeadGradients {
 public:
  // x [R, D] and weight [V, D] of one type.
  CudaHeadGradients(const at::Tensor& x, const at::Tensor& weight, bool want_hidden,
                    bool want_weight);

  // Takes the rows [begin, begin + n) of dz fp32 [n, V]. With `scale` [R, 1] row r of dz stands for
  // scale[r] times it.
  void add(const at::Tensor& dz, int64_t begin, const at::Tensor& scale = {});

  // fp32 [T, D], rows summed where index repeats, and [V, D]; undefined if not wanted.
  at::Tensor hidden(const at::Tensor& index, int64_t tokens) const;
  at::Tensor weight() const { return dweight_; }

 private:
  at::Tensor x_, weight_, dx_, dweight_;
};

// Throws if a kernel was not queued.
void check_cuda(int status);

}  // namespace xrun
