// dx = dz w and dw = dz^T x read dz in place, except that for a wide w blocks of dz of 2 MB are
// copied for dx. The factor of a row of dz is applied to the operands of width D, so no further
// pass over [R, V] is needed.

#include "core/model/ops/head_block.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>

#include "core/model/ops/matrix_product.h"
#include "core/model/ops/scratch.h"

namespace xrun {

namespace {

// For a wide w, dx is computed by blocks of the vocabulary, 6 MB of w at width 768: 99 GF/s on one
// Zen 4 core, against 88 for one product over 50,304. A narrow w is slower by blocks (93 against 98
// at width 256). The library copies a block of dz, whose rows are not adjacent, so it gets
// kHeadBlockRows rows at a time.
constexpr int64_t kWideHead = 512, kVocabBlock = 2048;

constexpr int64_t kGrainColumns = 128;  // the least columns of a row for a thread

std::atomic<int64_t> rows_seen = 0, rows_recomputed = 0;

// Multiplies by blocks of columns of dz, which are rows of w.
void multiply_by_weight(const at::Tensor& dx, const at::Tensor& dz, const at::Tensor& w) {
  // dx [R, D], dz [R, V], w [V, D].
  const int64_t vocab = w.size(0), rows = dz.size(0);
  const bool wide = w.size(1) > kWideHead;
  const int64_t block = wide ? kVocabBlock : vocab, most = wide ? kHeadBlockRows : rows;
  for (int64_t begin = 0; begin < vocab; begin += block) {
    const int64_t n = std::min(block, vocab - begin);
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t m = std::min(most, rows - row);
      multiply_into(dx.narrow(0, row, m), dz.narrow(0, row, m).narrow(1, begin, n),
                    w.narrow(0, begin, n), begin == 0 ? Into::kReplace : Into::kAdd);
    }
  }
}

}  // namespace

// A multiple of the block, so that saved and recomputed rows have the same blocks and bits.
int64_t head_rows_within(int64_t head_mb, int64_t rows, int64_t vocab) {
  const int64_t bytes = std::clamp<int64_t>(head_mb, 0, int64_t{1} << 40) << 20;
  const int64_t fit = bytes / 4 / std::max<int64_t>(vocab, 1);
  return fit >= rows ? rows : fit / kHeadBlockRows * kHeadBlockRows;
}

void each_logit_block(const at::Tensor& x, const at::Tensor& w, const at::Tensor& saved_rows,
                      int64_t from, const std::function<void(const LogitBlock&)>& f) {
  // x [R, D], w [V, D], z [n, V].
  // Blocks of saved rows are written to saved_rows; the others share one buffer.
  const int64_t rows = x.size(0), vocab = w.size(0);
  const int64_t saved_count = saved_rows.defined() ? saved_rows.size(0) : 0;
  at::Tensor spare;
  for (int64_t begin = from; begin < rows;) {
    const bool is_saved = begin < saved_count;
    const int64_t n = std::min(kHeadBlockRows, (is_saved ? saved_count : rows) - begin);
    // The first block beyond the saved rows is the largest, so its buffer serves all that follow.
    if (!is_saved && !spare.defined()) spare = scratch_floats(n * vocab);
    const at::Tensor z =
        is_saved ? saved_rows.narrow(0, begin, n) : spare.narrow(0, 0, n * vocab).view({n, vocab});
    multiply_rows_into(z, x.narrow(0, begin, n), w);
    f({z, begin, is_saved});
    begin += n;
  }
}

HeadGradients::HeadGradients(const at::Tensor& x, const at::Tensor& w, bool want_hidden,
                             bool want_weight)
    : x_(x), w_(w) {
  if (want_hidden) dx_ = at::empty(x.sizes(), at::kFloat);
  if (!want_weight) return;
  // The first block replaces dw, so zeros are needed only if there is none.
  dw_ = x.size(0) > 0 ? at::empty(w.sizes(), at::kFloat) : at::zeros(w.sizes(), at::kFloat);
}

void HeadGradients::add(const at::Tensor& dz, int64_t begin, const at::Tensor& scale) {
  // dz [n, V]; dx [n, D] = dz w; dw [V, D] += dz^T x.
  const int64_t n = dz.size(0);
  at::Tensor factor;
  if (scale.defined()) factor = scale.narrow(0, begin, n).unsqueeze(1);
  if (dx_.defined()) {
    at::Tensor dx = dx_.narrow(0, begin, n);
    multiply_by_weight(dx, dz, w_);
    if (factor.defined()) dx.mul_(factor);
  }
  if (dw_.defined()) {
    const at::Tensor x = x_.narrow(0, begin, n);
    multiply_into(dw_, dz.t(), factor.defined() ? at::mul(x, factor) : x,
                  first_ ? Into::kReplace : Into::kAdd);
  }
  first_ = false;
}

// Entries of one row or column are added in their order, so threads divide the width.
void HeadGradients::add_entries(std::span<const HeadEntry> entries) {
  if (first_) {
    if (dx_.defined()) dx_.zero_();
    if (dw_.defined()) dw_.zero_();
    first_ = false;
  }
  const int64_t width = x_.size(1);
  const auto add_rows = [&](const at::Tensor& to, const at::Tensor& from, auto to_row,
                            auto from_row) {
    float* const out = to.mutable_data_ptr<float>();
    const float* const in = from.const_data_ptr<float>();
    at::parallel_for(0, width, kGrainColumns, [&](int64_t begin, int64_t end) {
      for (const HeadEntry& e : entries) {
        float* const sum = out + e.*to_row * width;
        const float* const term = in + e.*from_row * width;
        for (int64_t d = begin; d < end; ++d) sum[d] += e.value * term[d];
      }
    });
  };
  if (dx_.defined()) add_rows(dx_, w_, &HeadEntry::row, &HeadEntry::column);
  if (dw_.defined()) add_rows(dw_, x_, &HeadEntry::column, &HeadEntry::row);
}

at::Tensor HeadGradients::hidden(const at::Tensor& index, int64_t tokens) const {
  if (!dx_.defined()) return {};
  const int64_t width = dx_.size(1);
  at::Tensor dhidden = at::zeros({tokens, width}, at::kFloat);
  const int64_t* const row = index.const_data_ptr<int64_t>();
  const float* const from = dx_.const_data_ptr<float>();
  float* const to = dhidden.mutable_data_ptr<float>();
  // Loss rows of one hidden row are added in their order, so threads divide the columns. index_add_
  // is not used: it sets up an iterator for each row, which took 3 % of a folded step of a tiny
  // model.
  at::parallel_for(0, width, kGrainColumns, [&](int64_t begin, int64_t end) {
    for (int64_t r = 0; r < index.size(0); ++r) {
      for (int64_t d = begin; d < end; ++d) to[row[r] * width + d] += from[r * width + d];
    }
  });
  return dhidden;
}

HeadCounts head_counts() { return {rows_seen.load(), rows_recomputed.load()}; }

void count_head_rows(const at::Tensor& x, const at::Tensor& saved_rows) {
  rows_seen += x.size(0);
  rows_recomputed += x.size(0) - saved_rows.size(0);
}

}  // namespace xrun
