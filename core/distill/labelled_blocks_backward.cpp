// With z the logits of a row, a the gradient of its log-prob, e_y its target, g the gradient of its
// chunk's loss, and h the gradient of that loss with respect to z:
//   dz = a (e_y - softmax z) + g h,   dx = dz W,   dW = dz^T x.
// Of a projected loss that reads the support alone, h is a few entries less s p, p the softmax at
// the loss's temperature over the columns that are not padding. If p is softmax z,
// dz = a e_y - (a + g s) softmax z + g entries, of which the saved rows have p - e_y already.

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "core/distill/labelled_blocks.h"
#include "core/distill/support_set.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

// Saved, or computed again with the same bits.
at::Tensor LabelledBlocks::logits(const SavedRows& saved, const KdBlock& block) {
  if (saved.has_z(block)) return rows_of(saved.z, block);
  const at::Tensor z = spare(spare_z_, block);
  blocks_.multiply(block, z);
  return z;
}

// p - e_y of the block's rows: saved, or computed again with the same bits.
at::Tensor LabelledBlocks::softmax_rows(const SavedRows& saved, const KdBlock& block) {
  const at::Tensor z = logits(saved, block);
  if (saved.has_z(block)) return z;
  at::parallel_for(block.student, block.student_end, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> logprob(static_cast<size_t>(end - begin));
    label_rows(row_of(z, begin - block.student), end - begin, vocab_,
               call_.student_target.const_data_ptr<int64_t>() + begin, logprob.data(),
               /*lse=*/nullptr, /*keep_softmax=*/true);
  });
  return z;
}

// h of the block's rows, [n, V]; z are their logits, undefined if the caller has none.
at::Tensor LabelledBlocks::loss_gradients(const SavedRows& saved, const KdBlock& block,
                                          const at::Tensor& z) {
  if (saved.has_h(block)) return rows_of(saved.h, block);
  const at::Tensor h = spare(spare_h_, block);
  h.copy_(z.defined() ? z : logits(saved, block));
  const at::Tensor losses = at::empty({std::ssize(call_.student_first) - 1}, at::kFloat);
  blocks_.compare(block, h, losses.mutable_data_ptr<float>(), true);
  return h;
}

// -g s of rows [begin, end), 0 for those without a chunk.
std::vector<float> LabelledBlocks::softmax_sums(const SupportGradients& support,
                                                const at::Tensor& grad_loss, int64_t begin,
                                                int64_t end) const {
  std::vector<float> sums(static_cast<size_t>(end - begin), 0.0f);
  const float* const g = grad_loss.const_data_ptr<float>();
  const int64_t* const chunk = call_.student_chunk.const_data_ptr<int64_t>();
  for (int64_t row = begin; row < std::min(end, call_.student_first.back()); ++row) {
    sums[row - begin] = -g[chunk[row]] * support.row_sum[row];
  }
  return sums;
}

// z becomes a (e_y - softmax z) - g s p; grad_loss may be undefined.
void LabelledBlocks::softmax_gradients(const SavedRows& saved, const KdBlock& block,
                                       const at::Tensor& grad_loss, const at::Tensor& grad_logprob,
                                       const at::Tensor& z) const {
  const bool two = grad_loss.defined() && saved.support && !saved.support->row_sum.empty();
  at::parallel_for(block.student, block.student_end, 1, [&](int64_t begin, int64_t end) {
    const std::vector<float> zeros(static_cast<size_t>(end - begin), 0.0f);
    const auto write = [&](int64_t first, int64_t last) {
      kernels::HeadRowsBackward rows{};
      rows.z = rows.dz = row_of(z, first - block.student);
      rows.rows = last - first;
      rows.width = rows.columns = vocab_;
      rows.scale = 1;
      rows.id = call_.student_target.const_data_ptr<int64_t>() + first;
      rows.grad = grad_logprob.const_data_ptr<float>() + first;
      rows.ids = 1;
      rows.lse = saved.lse.const_data_ptr<float>() + first;
      rows.grad_lse = zeros.data();
      kernels::cpu_kernels().run(rows);
    };
    if (!two) return write(begin, end);
    const std::vector<float> sums = softmax_sums(*saved.support, grad_loss, begin, end);
    // A row of -g s p at a time, which stays in the cache until it is added.
    const auto scale = static_cast<float>(1 / call_.options.temperature);
    std::vector<float> addend(static_cast<size_t>(vocab_));
    for (int64_t row = begin; row < end; ++row) {
      float* const own = row_of(z, row - block.student);
      const float sum = sums[row - begin] / scale;  // the kernel multiplies by scale
      if (sum != 0) {
        kernels::HeadRowsBackward rows{};
        rows.z = own;
        rows.dz = addend.data();
        rows.rows = 1;
        rows.width = vocab_;
        rows.columns = call_.student_columns;
        rows.scale = scale;
        rows.lse = saved.support->row_lse.data() + row;
        rows.grad_lse = &sum;
        kernels::cpu_kernels().run(rows);
      }
      write(row, row + 1);
      if (sum == 0) continue;
      for (int64_t v = 0; v < call_.student_columns; ++v) own[v] += addend[v];
    }
  });
}

// z is p - e_y of the block's rows and becomes dz / f, with the row's factor f = -(a + g s):
//   dz = f (p - e_y) - g s e_y + entries.
void LabelledBlocks::add_to_softmax(const SavedRows& saved, const KdBlock& block,
                                    const at::Tensor& grad_loss, const at::Tensor& grad_logprob,
                                    const at::Tensor& z, const at::Tensor& factor) {
  // Below, f (p - e_y) is lost beside any entry, and a quotient may overflow.
  constexpr float kSmallest = 1e-30f;
  const bool has_sums = grad_loss.defined() && !saved.support->row_sum.empty();
  const int64_t* const target = call_.student_target.const_data_ptr<int64_t>();
  const float* const a = grad_logprob.const_data_ptr<float>();
  float* const f = factor.mutable_data_ptr<float>();
  at::parallel_for(block.student, block.student_end, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> sums(static_cast<size_t>(end - begin), 0.0f);
    if (has_sums) sums = softmax_sums(*saved.support, grad_loss, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      const float sum = sums[row - begin];
      float* const own = row_of(z, row - block.student);
      f[row] = sum - a[row];
      if (std::abs(f[row]) < kSmallest) {
        std::fill_n(own, vocab_, 0.0f);
        f[row] = 1;
      }
      own[target[row]] += sum / f[row];
    }
  });
  if (!grad_loss.defined() || block.chunk == block.chunk_end) return;
  at::parallel_for(block.chunk, block.chunk_end, 1, [&](int64_t from, int64_t to) {
    each_support(*saved.support, grad_loss, from, to,
                 [&](int64_t row, int32_t column, float value) {
                   row_of(z, row - block.student)[column] += value / f[row];
                 });
  });
}

// Calls f(row, column, g h) for the entries of the chunks [from, to).
template <class F>
void LabelledBlocks::each_support(const SupportGradients& support, const at::Tensor& grad_loss,
                                  int64_t from, int64_t to, const F& f) {
  const float* const g = grad_loss.const_data_ptr<float>();
  // A loss of a chunk's first row has no gradient for the others.
  const bool first_alone = blocks_.worker().of_first_row_alone();
  for (int64_t c = from; c < to; ++c) {
    const int64_t begin = call_.student_first[c];
    const int64_t end = first_alone ? begin + 1 : call_.student_first[c + 1];
    const auto& [column, value] = support.chunk[c];
    const auto K = std::ssize(column);
    const int64_t stride = std::ssize(value) > K ? K : 0;  // rows with values of their own
    for (int64_t r = begin; r < end; ++r) {
      const float* const h = value.data() + (r - begin) * stride;
      for (int64_t i = 0; i < K; ++i) f(r, column[i], g[c] * h[i]);
    }
  }
}

// dz = a (e_y - softmax z) + g h of all rows. That of the saved rows is written over their logits:
// the weight's gradient is then one product over them, not a sum over blocks.
void LabelledBlocks::add_labelled(SavedRows& saved, const at::Tensor& grad_loss,
                                  const at::Tensor& grad_logprob, HeadGradients& gradients) {
  at::Tensor g;
  if (grad_loss.defined() && !support_alone_) {
    g = grad_loss.index_select(0, call_.student_chunk).unsqueeze(1);
  }
  for (const KdBlock& block : call_.blocks) {
    const bool chunked = grad_loss.defined() && block.chunk < block.chunk_end;
    const at::Tensor z = logits(saved, block);
    at::Tensor h;
    if (chunked && !support_alone_) h = loss_gradients(saved, block, z);
    softmax_gradients(saved, block, grad_loss, grad_logprob, z);
    if (h.defined()) {
      z.addcmul_(h, rows_of(g, block));
    } else if (chunked) {  // into dz, whose products are made anyway
      at::parallel_for(block.chunk, block.chunk_end, 1, [&](int64_t from, int64_t to) {
        each_support(*saved.support, grad_loss, from, to,
                     [&](int64_t row, int32_t column, float value) {
                       row_of(z, row - block.student)[column] += value;
                     });
      });
    }
    if (!saved.has_z(block)) gradients.add(z, block.student);
  }
  if (saved.has_logits && saved.z.size(0) > 0) gradients.add(saved.z, 0);
  saved.has_logits = false;
}

// add_labelled for saved rows of p - e_y. The factor of a row multiplies dx and x, so no pass over
// [R, V] is needed.
void LabelledBlocks::add_softmax(SavedRows& saved, const at::Tensor& grad_loss,
                                 const at::Tensor& grad_logprob, HeadGradients& gradients) {
  const at::Tensor factor = at::empty({blocks_.x().size(0)}, at::kFloat);
  for (const KdBlock& block : call_.blocks) {
    const at::Tensor z = softmax_rows(saved, block);
    add_to_softmax(saved, block, grad_loss, grad_logprob, z, factor);
    if (!saved.has_z(block)) gradients.add(z, block.student, factor);
  }
  if (saved.has_logits && saved.z.size(0) > 0) gradients.add(saved.z, 0, factor);
  saved.has_logits = false;
}

// g h alone, of a few columns: it needs no product.
void LabelledBlocks::add_support(const SupportGradients& support, const at::Tensor& grad_loss,
                                 HeadGradients& gradients) {
  std::vector<HeadEntry> entries;
  each_support(support, grad_loss, 0, std::ssize(support.chunk),
               [&](int64_t row, int32_t column, float value) {
                 entries.push_back({row, column, value});
               });
  gradients.add_entries(entries);
}

// g h alone. The factor of a chunk multiplies dx and x, as in kd_loss.
void LabelledBlocks::add_losses(const SavedRows& saved, const at::Tensor& grad_loss,
                                HeadGradients& gradients) {
  const at::Tensor g = grad_loss.index_select(0, call_.student_chunk);
  for (const KdBlock& block : call_.blocks) {
    if (block.chunk == block.chunk_end) continue;
    gradients.add(loss_gradients(saved, block, {}), block.student, g);
  }
}

std::pair<at::Tensor, at::Tensor> LabelledBlocks::backward(SavedRows& saved,
                                                           const at::Tensor& grad_loss,
                                                           const at::Tensor& grad_logprob,
                                                           int64_t tokens, bool want_hidden,
                                                           bool want_weight) {
  at::Tensor chunk_grad, label_grad, x = blocks_.x(), index = call_.student_index;
  if (grad_loss.defined()) chunk_grad = grad_loss.to(at::kFloat).contiguous();
  if (grad_logprob.defined()) {
    label_grad = grad_logprob.to(at::kFloat).contiguous();
  } else if (saved.support && !saved.support->row_sum.empty()) {
    label_grad = at::zeros({x.size(0)}, at::kFloat);  // the rows' softmax has a gradient
  }
  const bool labels = label_grad.defined();
  if (!labels) {  // the unchunked rows have no gradient
    x = x.narrow(0, 0, call_.student_first.back());
    index = index.narrow(0, 0, x.size(0));
  }
  HeadGradients gradients(x, blocks_.w(), want_hidden, want_weight);
  if (labels) {
    count_head_rows(x, saved.has_logits ? saved.z : saved.z.narrow(0, 0, 0));
    if (keeps_softmax_) {
      add_softmax(saved, chunk_grad, label_grad, gradients);
    } else {
      add_labelled(saved, chunk_grad, label_grad, gradients);
    }
  } else {
    count_head_rows(x, support_alone_ ? x : saved.h);
    if (support_alone_) {
      add_support(*saved.support, chunk_grad, gradients);
    } else {
      add_losses(saved, chunk_grad, gradients);
    }
  }
  return {want_hidden ? gradients.hidden(index, tokens) : at::Tensor(),
          want_weight ? gradients.weight() : at::Tensor()};
}

}  // namespace xrun
