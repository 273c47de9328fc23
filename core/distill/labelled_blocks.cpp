// Blocks of rows go through the head one after the other; what fits the budget is kept for the
// backward (labelled_blocks_backward.cpp).

#include "core/distill/labelled_blocks.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "core/distill/support_set.h"
#include "core/model/ops/matrix_product.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

LabelledBlocks::LabelledBlocks(const KdCall& call, const at::Tensor& hidden,
                               const at::Tensor& weight)
    : call_(call), blocks_(call, hidden, weight), vocab_(weight.size(0)) {
  for (const KdBlock& block : call.blocks) {
    widest_ = std::max(widest_, block.student_end - block.student);
  }
  one_softmax_ = call.options.temperature == 1 && call.student_columns == vocab_;
  support_alone_ = keeps_support(call.options);
  keeps_softmax_ = support_alone_ && (one_softmax_ || !support_form(call.options).projected);
}

at::Tensor LabelledBlocks::spare(at::Tensor& buffer, const KdBlock& block) const {
  // Sized for the widest block, so that one buffer serves all of them.
  if (!buffer.defined()) buffer = scratch_matrix(widest_, vocab_);
  return buffer.narrow(0, 0, block.student_end - block.student);
}

// As many whole blocks as fit into `rows`.
at::Tensor LabelledBlocks::saved_matrix(int64_t rows) const {
  int64_t fit = 0;
  for (const KdBlock& block : call_.blocks) {
    // Blocks are in the order of their rows, so the saved ones are the first.
    if (block.student_end <= rows) fit = block.student_end;
  }
  return fit > 0 ? scratch_matrix(fit, vocab_) : at::empty({0, vocab_}, at::kFloat);
}

// h first: computing it again takes the teacher's logits, too.
void LabelledBlocks::reserve(SavedRows& saved, int64_t head_mb) {
  const int64_t chunked = call_.student_first.back(), chunks = std::ssize(call_.student_first) - 1;
  const int64_t h_rows = support_alone_ ? 0 : head_rows_within(head_mb, chunked, vocab_);
  // The share of h in the budget, rounded up to MiB; z gets the rest.
  const int64_t h_mb = (h_rows * vocab_ * 4 + (int64_t{1} << 20) - 1) >> 20;
  saved.h = saved_matrix(h_rows);
  saved.z = saved_matrix(
      head_rows_within(std::max<int64_t>(head_mb - h_mb, 0), blocks_.x().size(0), vocab_));
  if (!support_alone_) return;
  saved.support = c10::make_intrusive<SupportGradients>();
  saved.support->chunk.resize(static_cast<size_t>(chunks));
  if (!support_form(call_.options).projected) return;
  saved.support->row_sum.resize(static_cast<size_t>(chunked));
  if (!one_softmax_) saved.support->row_lse.resize(static_cast<size_t>(chunked));
}

void LabelledBlocks::label_rows(float* z, int64_t rows, int64_t vocab, const int64_t* target,
                                float* logprob, float* lse, bool keep_softmax) {
  kernels::cpu_kernels().run(kernels::SoftmaxRows{.x = z,
                                                  .first = nullptr,
                                                  .target = target,
                                                  .logprob = logprob,
                                                  .lse = lse,
                                                  .rows = rows,
                                                  .width = vocab,
                                                  .keep = keep_softmax});
}

// Log-probs of the targets of rows [begin, end) of the block, whose logits z become p - e_y if
// `keep_softmax`.
void LabelledBlocks::read_labels(const at::Tensor& z, const KdBlock& block, int64_t begin,
                                 int64_t end, bool keep_softmax) {
  label_rows(row_of(z, begin - block.student), end - begin, vocab_,
             call_.student_target.const_data_ptr<int64_t>() + begin,
             logprob_.mutable_data_ptr<float>() + begin, lse_.mutable_data_ptr<float>() + begin,
             keep_softmax);
}

// The losses of the block's chunks with their gradients, and the labels of their rows.
void LabelledBlocks::compare_support(const at::Tensor& z, const KdBlock& block,
                                     SupportGradients* gradients, bool keep_softmax) {
  const int64_t columns = call_.student_columns;
  const auto scale = static_cast<float>(1 / call_.options.temperature);
  const int64_t* const target = call_.student_target.const_data_ptr<int64_t>();
  float* const loss = loss_.mutable_data_ptr<float>();
  float* const logprob = logprob_.mutable_data_ptr<float>();
  float* const lse = lse_.mutable_data_ptr<float>();
  const at::Tensor teacher = call_.cached ? at::Tensor() : blocks_.teacher_logits(block);
  at::parallel_for(block.chunk, block.chunk_end, 1, [&](int64_t from, int64_t to) {
    ChunkLoss<float>& chunk_loss = blocks_.worker();
    std::vector<int64_t> ids;
    std::vector<float> logs;
    for (int64_t c = from; c < to; ++c) {
      const int64_t begin = call_.student_first[c], end = call_.student_first[c + 1];
      // Called once per row: with keep_softmax the logits are gone afterwards.
      const auto support_logs = [&](int64_t r, const std::vector<int32_t>& support, float* out) {
        const int64_t row = begin + r;
        float* const own = row_of(z, row - block.student);
        if (!one_softmax_) {
          ids.assign(support.begin(), support.end());
          const float sum = column_logprobs(own, columns, scale, ids.data(), std::ssize(ids), out);
          if (gradients != nullptr && !gradients->row_lse.empty()) gradients->row_lse[row] = sum;
          return;
        }
        // The label first: its column is the one that becomes p - 1.
        ids.assign(1, target[row]);
        ids.insert(ids.end(), support.begin(), support.end());
        logs.resize(ids.size());
        const int64_t first[] = {0, std::ssize(ids)};
        kernels::cpu_kernels().run(kernels::SoftmaxRows{.x = own,
                                                        .first = first,
                                                        .target = ids.data(),
                                                        .logprob = logs.data(),
                                                        .lse = lse + row,
                                                        .rows = 1,
                                                        .width = vocab_,
                                                        .keep = keep_softmax});
        logprob[row] = logs.front();
        std::copy(logs.begin() + 1, logs.end(), out);
      };
      loss[c] = static_cast<float>(
          call_.cached
              ? chunk_loss(end - begin, support_logs, cached_rows(call_, c))
              : chunk_loss(end - begin, support_logs, blocks_.teacher_chunk(c, block, teacher)));
      const int64_t read = chunk_loss.of_first_row_alone() ? 1 : end - begin;
      read_labels(z, block, one_softmax_ ? begin + read : begin, end, keep_softmax);
      if (gradients == nullptr) continue;
      gradients->chunk[c] = {chunk_loss.support(), chunk_loss.support_gradient()};
      std::ranges::copy(chunk_loss.support_sum(), gradients->row_sum.begin() + begin);
    }
  });
}

LabelledKd LabelledBlocks::forward(SavedRows& saved, bool gradient) {
  const int64_t rows = blocks_.x().size(0), chunks = std::ssize(call_.student_first) - 1;
  loss_ = at::empty({chunks}, at::kFloat);
  logprob_ = at::empty({rows}, at::kFloat);
  saved.lse = lse_ = at::empty({rows}, at::kFloat);
  saved.z = saved.h = at::empty({0, vocab_}, at::kFloat);
  // Without a gradient nothing is kept: the logits of a block are overwritten by the next.
  if (gradient) reserve(saved, call_.options.head_mb);
  for (const KdBlock& block : call_.blocks) {
    const at::Tensor z = saved.has_z(block) ? rows_of(saved.z, block) : spare(spare_z_, block);
    blocks_.multiply(block, z);
    const bool keep_softmax = keeps_softmax_ && saved.has_z(block);
    if (support_alone_ && block.chunk < block.chunk_end) {
      compare_support(z, block, saved.support.get(), keep_softmax);
      continue;
    }
    // A row is a whole vocabulary: work enough for a thread.
    at::parallel_for(block.student, block.student_end, 1, [&](int64_t begin, int64_t end) {
      read_labels(z, block, begin, end, keep_softmax);
    });
    if (block.chunk == block.chunk_end) continue;
    const bool keeps_h = saved.has_h(block);
    const at::Tensor h = keeps_h ? rows_of(saved.h, block).copy_(z) : z;
    blocks_.compare(block, h, loss_.mutable_data_ptr<float>(), keeps_h);
  }
  return {loss_, logprob_};
}

}  // namespace xrun
