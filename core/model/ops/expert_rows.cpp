// A counting sort by expert, stable in the slots; so a token's rows rise with its experts.

#include "core/model/ops/expert_rows.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace xrun {

namespace {

constexpr int64_t kGrain = 64;  // tokens below which a thread costs more than it saves

template <class T>
void sum_rows(const at::Tensor& x, const at::Tensor& weight, const ExpertRows& rows,
              at::Tensor& y) {
  const int64_t k = rows.of_token.size(1), D = x.size(1);
  const T* const in = x.const_data_ptr<T>();
  const T* const scale = weight.defined() ? weight.const_data_ptr<T>() : nullptr;
  const int64_t* const row = rows.of_token.const_data_ptr<int64_t>();
  T* const out = y.mutable_data_ptr<T>();
  at::parallel_for(0, y.size(0), kGrain, [&](int64_t begin, int64_t end) {
    std::vector<float> sum(static_cast<size_t>(D));
    for (int64_t t = begin; t < end; ++t) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t r = row[t * k + j];
        const float factor = scale == nullptr ? 1.0f : static_cast<float>(scale[r]);
        for (int64_t d = 0; d < D; ++d) {
          sum[static_cast<size_t>(d)] += factor * static_cast<float>(in[r * D + d]);
        }
      }
      for (int64_t d = 0; d < D; ++d) out[t * D + d] = static_cast<T>(sum[static_cast<size_t>(d)]);
    }
  });
}

}  // namespace

ExpertRows expert_rows(const at::Tensor& index, int64_t experts) {
  const at::Tensor dense = index.contiguous();
  const int64_t T = index.size(0), k = index.size(1), slots = T * k;
  const int64_t* const expert = dense.const_data_ptr<int64_t>();
  ExpertRows rows;
  rows.begin.assign(static_cast<size_t>(experts) + 1, 0);
  for (int64_t s = 0; s < slots; ++s) ++rows.begin[static_cast<size_t>(expert[s]) + 1];
  for (size_t e = 0; e < static_cast<size_t>(experts); ++e) rows.begin[e + 1] += rows.begin[e];
  rows.slot = at::empty({slots}, at::kLong);
  rows.token = at::empty({slots}, at::kLong);
  rows.of_token = at::empty({T, k}, at::kLong);
  int64_t* const slot = rows.slot.mutable_data_ptr<int64_t>();
  int64_t* const token = rows.token.mutable_data_ptr<int64_t>();
  int64_t* const of_token = rows.of_token.mutable_data_ptr<int64_t>();
  std::vector<int64_t> next(rows.begin.begin(), rows.begin.end() - 1);
  for (int64_t s = 0; s < slots; ++s) slot[next[static_cast<size_t>(expert[s])]++] = s;
  std::vector<int64_t> seen(static_cast<size_t>(T), 0);
  for (int64_t r = 0; r < slots; ++r) {
    token[r] = slot[r] / k;
    of_token[token[r] * k + seen[static_cast<size_t>(token[r])]++] = r;
  }
  return rows;
}

at::Tensor sum_of_rows(const at::Tensor& x, const at::Tensor& weight, const ExpertRows& rows) {
  at::Tensor y = at::empty({rows.of_token.size(0), x.size(1)}, x.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "sum_of_rows",
                                  [&] { sum_rows<scalar_t>(x, weight, rows, y); });
  return y;
}

}  // namespace xrun
