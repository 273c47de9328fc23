#pragma once
// Computes a distillation loss block by block: logits exist for one block of chunks at a time.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/distill/chunk_loss.h"
#include "core/distill/kd_call.h"

namespace xrun {

// Returns an uninitialised matrix on the CPU, in scratch memory for fp32.
at::Tensor block_matrix(int64_t rows, int64_t columns, at::ScalarType type);

// Computes blocks in T, which is float, or double for a student's weight in fp64.
template <class T>
class KdBlocks {
 public:
  KdBlocks(const KdCall& call, const at::Tensor& hidden, const at::Tensor& weight);

  const at::Tensor& x() const { return x_; }  // [R, D], the student's gathered rows
  const at::Tensor& w() const { return w_; }  // [V, D]

  // Returns how many of the first blocks have gradients of logits that fit in head_mb MiB.
  int64_t saved_blocks() const;

  // Fills z [n, V] with the student's logits of the block's rows.
  void multiply(const KdBlock& block, const at::Tensor& z) const;

  // Fills the block's entries of losses [C] from its logits z; with `gradient` z becomes dz.
  void compare(const KdBlock& block, const at::Tensor& z, T* losses, bool gradient);

  // Returns the teacher's logits of the block's rows, the mean if there are several teachers;
  // undefined for cached columns.
  at::Tensor teacher_logits(const KdBlock& block) const;
  // Returns the rows of the block's teacher_logits that belong to chunk c.
  ChunkLogits<T> teacher_chunk(int64_t c, const KdBlock& block, const at::Tensor& logits) const;

  // Returns the calling thread's losses. They hold scratch of a whole vocabulary, so each thread
  // makes its own once.
  ChunkLoss<T>& worker();

  // multiply, then compare.
  void compute(const KdBlock& block, const at::Tensor& z, T* losses, bool gradient) {
    multiply(block, z);
    compare(block, z, losses, gradient);
  }

 private:
  double chunk_loss(ChunkLoss<T>& loss, int64_t c, const KdBlock& block, const at::Tensor& z,
                    const at::Tensor& teacher_z, bool gradient) const;

  const KdCall& call_;
  at::ScalarType type_;
  at::Tensor x_;                                        // [R, D]
  at::Tensor w_;                                        // [V, D]
  std::vector<at::Tensor> teacher_x_;                   // by teacher, [Rt, Dt]
  std::vector<at::Tensor> teacher_w_;                   // by teacher, [Vt, Dt]
  std::vector<std::unique_ptr<ChunkLoss<T>>> workers_;  // one per thread; null: not made yet
};

}  // namespace xrun
