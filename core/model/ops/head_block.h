#pragma once
// The vocabulary products of loss rows on the CPU: the logits, a block of rows at a time, and the
// gradients of both operands.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

namespace xrun {

// Rows of one product and one pass over its logits. The product reaches its full rate at 200 rows,
// and 256 rows of 32,000 logits are still in a third-level cache when they are read.
constexpr int64_t kHeadBlockRows = 256;

// Returns how many of `rows` rows of `vocab` fp32 numbers fit in head_mb MiB: all, or a multiple of
// kHeadBlockRows, so that blocks are the same however many rows are saved.
int64_t head_rows_within(int64_t head_mb, int64_t rows, int64_t vocab);

struct LogitBlock {
  at::Tensor z;   // [n, V]
  int64_t begin;  // its first row
  bool saved;     // true: z is in `saved_rows`; false: the next block overwrites it
};

// Calls f with the logits of rows [from, R) of x [R, D] under w [V, D], fp32, in order. Those of
// the first n rows are written to `saved_rows` [n, V], the others to a shared buffer.
void each_logit_block(const at::Tensor& x, const at::Tensor& w, const at::Tensor& saved_rows,
                      int64_t from, const std::function<void(const LogitBlock&)>& f);

// A number of dz [R, V].
struct HeadEntry {
  int64_t row, column;
  float value;
};

// The gradients of z = x w^T, summed over blocks of dz.
class HeadGradients {
 public:
  HeadGradients(const at::Tensor& x, const at::Tensor& w, bool want_hidden, bool want_weight);

  // Adds rows [begin, begin + n), once each: dx = dz w, dw += dz^T x. With `scale` [R], row r of dz
  // is multiplied by scale[r]. Copies at most 2 MB of dz at a time.
  void add(const at::Tensor& dz, int64_t begin, const at::Tensor& scale = {});

  // Adds single numbers of dz, in order and after all calls of add: dx[row] += value w[column],
  // dw[column] += value x[row].
  void add_entries(std::span<const HeadEntry> entries);

  // Return the gradients of hidden, [T, D], with rows summed where `index` repeats, and of w,
  // [V, D]; undefined if not wanted.
  at::Tensor hidden(const at::Tensor& index, int64_t tokens) const;
  at::Tensor weight() const { return dw_; }

 private:
  at::Tensor x_;   // [R, D]
  at::Tensor w_;   // [V, D]
  at::Tensor dx_;  // [R, D] fp32; undefined if not wanted
  at::Tensor dw_;  // [V, D] fp32; undefined if not wanted
  bool first_ = true;
};

// Counts over all heads since the process began, on any device; a step reports the difference.
struct HeadCounts {
  int64_t rows = 0;        // rows with a gradient
  int64_t recomputed = 0;  // of these, the rows beyond head_mb
};
HeadCounts head_counts();
// Counts a backward over x [R, D] whose forward saved [n, V].
void count_head_rows(const at::Tensor& x, const at::Tensor& saved_rows);

}  // namespace xrun
