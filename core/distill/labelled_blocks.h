#pragma once
// The blocks of labelled_kd: forward and backward, without autograd.

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/distill/kd_blocks.h"
#include "core/distill/kd_call.h"
#include "core/distill/labelled_kd.h"
#include "core/model/ops/head_block.h"

namespace xrun {

// The gradients of losses that read only the support (support_set.h). With respect to the logits of
// row r in chunk c the gradient is h - p row_sum[r]: h is 0 outside of the support, and p is a
// softmax. K is the size of a chunk's support.
struct SupportGradients : torch::CustomClassHolder {
  struct ChunkGradient {
    std::vector<int32_t> column;  // [K], the support
    std::vector<float> value;     // h there, [K] for all rows of the chunk, or [rows, K]
  };
  std::vector<ChunkGradient> chunk;  // [C]
  std::vector<float> row_sum;        // [N], or empty if all are 0
  std::vector<float> row_lse;        // [N] of p, or empty if p is the softmax of the log-probs
};

// Kept by the forward for the backward. N is all rows, S those that fit the budget.
struct SavedRows {
  at::Tensor z;    // [S, V], the logits of the first rows, or their p - e_y (LabelledBlocks)
  at::Tensor h;    // [S, V], gradients of the losses for the first rows; none if `support` has them
  at::Tensor lse;  // [N], of the logits
  c10::intrusive_ptr<SupportGradients> support;

  bool has_logits = true;  // a backward overwrites z

  bool has_z(const KdBlock& block) const { return has_logits && block.student_end <= z.size(0); }
  bool has_h(const KdBlock& block) const { return block.student_end <= h.size(0); }
};

// Computes one call, whose unchunked rows of the student come last. `call`, hidden and weight must
// outlive the object.
class LabelledBlocks {
 public:
  //   hidden  [tokens, D]
  //   weight  [V, D], on the CPU and not fp64
  LabelledBlocks(const KdCall& call, const at::Tensor& hidden, const at::Tensor& weight);

  // Returns loss [C] and logprob [N] of the call. With `gradient` fills `saved` for the backward.
  LabelledKd forward(SavedRows& saved, bool gradient);

  // Returns the gradients of hidden [tokens, D] and weight [V, D], fp32, where wanted, given those
  // of loss [C] and logprob [N], of which one may be undefined. May overwrite saved.z.
  std::pair<at::Tensor, at::Tensor> backward(SavedRows& saved, const at::Tensor& grad_loss,
                                             const at::Tensor& grad_logprob, int64_t tokens,
                                             bool want_hidden, bool want_weight);

 private:
  static at::Tensor rows_of(const at::Tensor& matrix, const KdBlock& block) {
    return matrix.narrow(0, block.student, block.student_end - block.student);
  }
  static float* row_of(const at::Tensor& matrix, int64_t row) {
    return matrix.mutable_data_ptr<float>() + row * matrix.size(1);
  }
  // logprob [rows] of one target per row of z [rows, V] and, unless null, lse [rows]; with
  // keep_softmax z becomes softmax z - e_target.
  static void label_rows(float* z, int64_t rows, int64_t vocab, const int64_t* target,
                         float* logprob, float* lse, bool keep_softmax);
  at::Tensor spare(at::Tensor& buffer, const KdBlock& block) const;
  at::Tensor saved_matrix(int64_t rows) const;
  void reserve(SavedRows& saved, int64_t head_mb);
  void read_labels(const at::Tensor& z, const KdBlock& block, int64_t begin, int64_t end,
                   bool keep_softmax);
  void compare_support(const at::Tensor& z, const KdBlock& block, SupportGradients* gradients,
                       bool keep_softmax);
  at::Tensor logits(const SavedRows& saved, const KdBlock& block);
  at::Tensor softmax_rows(const SavedRows& saved, const KdBlock& block);
  at::Tensor loss_gradients(const SavedRows& saved, const KdBlock& block, const at::Tensor& z);
  std::vector<float> softmax_sums(const SupportGradients& support, const at::Tensor& grad_loss,
                                  int64_t begin, int64_t end) const;
  void softmax_gradients(const SavedRows& saved, const KdBlock& block, const at::Tensor& grad_loss,
                         const at::Tensor& grad_logprob, const at::Tensor& z) const;
  void add_to_softmax(const SavedRows& saved, const KdBlock& block, const at::Tensor& grad_loss,
                      const at::Tensor& grad_logprob, const at::Tensor& z,
                      const at::Tensor& factor);
  template <class F>
  void each_support(const SupportGradients& support, const at::Tensor& grad_loss, int64_t from,
                    int64_t to, const F& f);
  void add_support(const SupportGradients& support, const at::Tensor& grad_loss,
                   HeadGradients& gradients);
  void add_labelled(SavedRows& saved, const at::Tensor& grad_loss, const at::Tensor& grad_logprob,
                    HeadGradients& gradients);
  void add_softmax(SavedRows& saved, const at::Tensor& grad_loss, const at::Tensor& grad_logprob,
                   HeadGradients& gradients);
  void add_losses(const SavedRows& saved, const at::Tensor& grad_loss, HeadGradients& gradients);

  const KdCall& call_;
  KdBlocks<float> blocks_;
  int64_t vocab_, widest_ = 0;  // widest_: rows of a block
  // One softmax serves the losses and the log-probs: the temperature is 1, and no column is
  // padding.
  bool one_softmax_ = false;
  bool support_alone_ = false;  // the losses keep SupportGradients instead of rows h
  // The gradient of a row is a multiple of p - e_y plus a few entries: the saved rows are p - e_y,
  // and the backward needs no pass over [R, V].
  bool keeps_softmax_ = false;
  at::Tensor loss_;               // [C]
  at::Tensor logprob_;            // [N]
  at::Tensor lse_;                // [N]
  at::Tensor spare_z_, spare_h_;  // of one block
};

}  // namespace xrun
