// Columns are selected by integer keys: a number's bits, changed so that they fall as it rises.

#include "core/model/ops/logit_rows.h"

#include <ATen/ops/mm.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/model/ops/matrix_product.h"
#include "core/model/ops/op.h"

namespace xrun {

void logits_into(const at::Tensor& z, const at::Tensor& x, const at::Tensor& w) {
  if (x.is_cpu() && x.scalar_type() == at::kFloat) return multiply_rows_into(z, x, w);
  z.copy_(at::mm(x, w.t()));
}

template <>
RowSoftmax softmax_row<float>(const float* z, int64_t columns, float scale, float* e) {
  float most = 0;
  RowSoftmax row;
  kernels::cpu_kernels().run(kernels::ExpRow{z, e, &most, &row.sum, columns, scale});
  row.most = most;
  row.log_sum = std::log(row.sum);
  return row;
}

template <>
RowSoftmax softmax_row<double>(const double* z, int64_t columns, double scale, double* e) {
  RowSoftmax row;
  row.most = *std::max_element(z, z + columns);
  for (int64_t v = 0; v < columns; ++v) {
    e[v] = std::exp(scale * (z[v] - row.most));
    row.sum += e[v];
  }
  row.log_sum = std::log(row.sum);
  return row;
}

float column_logprobs(const float* z, int64_t columns, float scale, const int64_t* ids, int64_t n,
                      float* logprob) {
  float lse = 0;
  kernels::HeadRows row{};
  row.z = z;
  row.rows = 1;
  row.width = row.columns = columns;
  row.scale = scale;
  row.target = ids;
  row.targets = n;
  row.logprob = logprob;
  row.lse = &lse;
  kernels::cpu_kernels().run(row);
  return lse;
}

// Adding 0 gives both zeros the same key, since they are equal values.
uint64_t falling_key(float x) {
  const auto bits = std::bit_cast<uint32_t>(x + 0.0f);
  return static_cast<uint32_t>(bits >> 31 != 0 ? bits : ~(bits | 0x80000000u));
}

uint64_t falling_key(double x) {
  const auto bits = std::bit_cast<uint64_t>(x + 0.0);
  return bits >> 63 != 0 ? bits : ~(bits | uint64_t{1} << 63);
}

namespace {

constexpr int kBucketBits = 14;  // sign, exponent and 5 bits of the fraction of a float

// Fills `ranked` with the k smallest keys and perhaps others, in any order. A histogram of the
// leading bits leaves few candidates; a selection among 50,000 pairs would take ten times as long.
template <class T>
void keep_candidates(const T* value, const int32_t* columns, int64_t n, int64_t k,
                     std::vector<RankedColumn>& ranked) {
  const auto column_of = [&](int64_t i) {
    return columns == nullptr ? static_cast<int32_t>(i) : columns[i];
  };
  ranked.clear();
  uint64_t last = ~uint64_t{0};  // the last bucket that is kept
  constexpr int kShift = 8 * sizeof(T) - kBucketBits;
  if (k < n / 2) {
    std::array<uint32_t, size_t{1} << kBucketBits> count{};
    for (int64_t i = 0; i < n; ++i) ++count[falling_key(value[column_of(i)]) >> kShift];
    int64_t seen = 0;
    for (last = 0; (seen += count[last]) < k; ++last) {
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    const int32_t column = column_of(i);
    const uint64_t key = falling_key(value[column]);
    if (key >> kShift <= last) ranked.push_back({key, column});
  }
}

}  // namespace

template <class T>
void rank_columns(const T* value, const int32_t* columns, int64_t n, int64_t k,
                  std::vector<RankedColumn>& ranked) {
  keep_candidates(value, columns, n, k, ranked);
  if (k < std::ssize(ranked)) {
    std::nth_element(ranked.begin(), ranked.begin() + k, ranked.end());
    ranked.resize(static_cast<size_t>(k));
  }
  std::sort(ranked.begin(), ranked.end());
}

template <class T>
void top_columns(const T* value, int64_t n, int64_t k, std::vector<RankedColumn>& ranked,
                 std::vector<int32_t>& columns) {
  columns.resize(static_cast<size_t>(std::min(n, k)));
  if (k >= n) {
    std::iota(columns.begin(), columns.end(), 0);
    return;
  }
  keep_candidates(value, nullptr, n, k, ranked);
  if (k < std::ssize(ranked)) {
    std::nth_element(ranked.begin(), ranked.begin() + k, ranked.end());
  }
  for (int64_t i = 0; i < k; ++i) columns[i] = ranked[i].column;
  std::sort(columns.begin(), columns.end());
}

template void top_columns(const float*, int64_t, int64_t, std::vector<RankedColumn>&,
                          std::vector<int32_t>&);
template void top_columns(const double*, int64_t, int64_t, std::vector<RankedColumn>&,
                          std::vector<int32_t>&);
template void rank_columns(const float*, const int32_t*, int64_t, int64_t,
                           std::vector<RankedColumn>&);
template void rank_columns(const double*, const int32_t*, int64_t, int64_t,
                           std::vector<RankedColumn>&);

}  // namespace xrun
