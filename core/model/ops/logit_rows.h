#pragma once
// Operations on rows of logits on the CPU: softmax, log-probabilities, the largest columns.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace xrun {

// Writes x w^T to z [n, V] on the CPU. The product runs on the device of x [n, D] and w [V, D]; all
// are of one type. In fp32 on the CPU a row has the same bits whatever rows are beside it.
void logits_into(const at::Tensor& z, const at::Tensor& x, const at::Tensor& w);

// With s = scale z over the columns of a row and `most` the largest z:
// log p = scale (z - most) - log_sum.
struct RowSoftmax {
  double most = 0, sum = 0, log_sum = 0;
};

// Writes e = exp(scale (z - most)), so that p = e / sum, and returns the sums. In fp32 these have
// the bits of the head (kernels/cpu/head_rows.h). T is float or double; e may not be z.
template <class T>
RowSoftmax softmax_row(const T* z, int64_t columns, T scale, T* e);

// Returns the log-probability of a logit z of the row, rounded once, as the head rounds it.
template <class T>
T row_logprob(T z, const RowSoftmax& row, T scale) {
  const double below = static_cast<double>(z) - row.most;
  return static_cast<T>(__builtin_fma(below, static_cast<double>(scale), -row.log_sum));
}

// Writes the log-probabilities of the n columns in `ids`, with the bits of row_logprob, and returns
// the log-sum-exp of scale z. Unlike softmax_row it writes no exponentials.
float column_logprobs(const float* z, int64_t columns, float scale, const int64_t* ids, int64_t n,
                      float* logprob);

// A column and a key that falls as its value rises. Keys are integers, and a NaN has one too, so
// that sorting by them is safe.
struct RankedColumn {
  uint64_t key;
  int32_t column;
  bool operator<(const RankedColumn& o) const {
    return key < o.key || (key == o.key && column < o.column);
  }
};

uint64_t falling_key(float x);
uint64_t falling_key(double x);

// Fills `columns` with the k columns of the largest values, in rising order of columns; of equal
// values the lower column is taken. k may exceed n. `ranked` is scratch.
template <class T>
void top_columns(const T* value, int64_t n, int64_t k, std::vector<RankedColumn>& ranked,
                 std::vector<int32_t>& columns);

// Fills `ranked` with the k <= n largest of the values in falling order: those of the listed
// columns, or of columns 0 to n - 1 if `columns` is null.
template <class T>
void rank_columns(const T* value, const int32_t* columns, int64_t n, int64_t k,
                  std::vector<RankedColumn>& ranked);

}  // namespace xrun
