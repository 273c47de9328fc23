#pragma once
// The work of a distillation loss: whole chunks in blocks, whose logits exist one block at a time.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/distill/chunk_loss.h"
#include "core/distill/kd.h"

namespace xrun {

// Half-open ranges of chunks and of both sides' rows.
struct KdBlock {
  int64_t chunk, chunk_end, student, student_end, teacher, teacher_end;
};

// Returns the blocks of chunks given by their first rows on each side, [C + 1]: one chunk, or as
// many as fit kHeadChunkRows rows on both sides, since a product reaches its full rate there.
std::vector<KdBlock> make_blocks(const std::vector<int64_t>& student,
                                 const std::vector<int64_t>& teacher);

// Everything of a call but the student's hidden states and weight.
struct KdCall : torch::CustomClassHolder {
  KdOptions options;
  std::shared_ptr<const VocabularyMap> map;
  std::vector<int64_t> student_first, teacher_first;  // [C + 1]
  std::vector<KdBlock> blocks;
  at::Tensor student_index, student_chunk, student_target;
  int64_t student_columns = 0;
  // One of the two. The logits of several teachers are averaged; their rows are the same.
  std::vector<KdSide> teachers;
  std::optional<TeacherColumns> cached;
  int64_t teacher_columns = 0;
};

// Returns an uninitialised matrix on the CPU, in scratch memory for fp32.
at::Tensor block_matrix(int64_t rows, int64_t columns, at::ScalarType type);

// Computes blocks in T, which is float, or double for a student's weight in fp64.
template <class T>
class KdBlocks {
 public:
  KdBlocks(const KdCall& call, const at::Tensor& hidden, const at::Tensor& weight);

  const at::Tensor& x() const { return x_; }  // [R, D], the student's gathered rows
  const at::Tensor& w() const { return w_; }  // [V, D]

  // Returns how many blocks, from the first, have gradients of logits within head_mb MiB.
  int64_t saved_blocks() const;

  // Fills z [n, V] with the student's logits, and losses [C] of the block's chunks; with `gradient`
  // z becomes dz.
  void compute(const KdBlock& block, const at::Tensor& z, T* losses, bool gradient);

 private:
  double chunk_loss(ChunkLoss<T>& loss, int64_t c, const KdBlock& block, const at::Tensor& z,
                    const at::Tensor& teacher_z, bool gradient) const;

  at::Tensor teacher_logits(const KdBlock& block) const;

  const KdCall& call_;
  at::ScalarType type_;
  at::Tensor x_, w_;
  std::vector<at::Tensor> teacher_x_, teacher_w_;       // by teacher
  std::vector<std::unique_ptr<ChunkLoss<T>>> workers_;  // one a thread, made on first use
};

}  // namespace xrun
