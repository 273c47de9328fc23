// prob = softmax(logits);  index, weight = top k of prob;  weight /= sum(weight) if asked.

#include "core/model/ops/moe_routing.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <type_traits>

#include "core/base/error.h"
#include "core/model/ops/op.h"

namespace xrun {

namespace {

constexpr int64_t kGrainTokens = 64;  // tokens below which a thread costs more than it saves

// Without weights the factor is 1, as the backward needs it.
template <class T>
void sum_rows_of(const at::Tensor& x, const at::Tensor& weight, const ExpertRows& rows,
                 at::Tensor& y) {
  const int64_t k = rows.of_token.size(1), D = x.size(1);
  const T* const in = x.const_data_ptr<T>();
  const T* const scale = weight.defined() ? weight.const_data_ptr<T>() : nullptr;
  const int64_t* const row = rows.of_token.const_data_ptr<int64_t>();
  T* const out = y.mutable_data_ptr<T>();
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  at::parallel_for(0, y.size(0), kGrainTokens, [&](int64_t begin, int64_t end) {
    // A token's rows ascend, so its experts are added in rising order, whatever the threads.
    std::vector<Wide> sum(static_cast<size_t>(D));
    for (int64_t t = begin; t < end; ++t) {
      std::fill(sum.begin(), sum.end(), Wide{0});
      for (int64_t j = 0; j < k; ++j) {
        const int64_t r = row[t * k + j];
        const Wide factor = scale == nullptr ? Wide{1} : static_cast<Wide>(scale[r]);
        for (int64_t d = 0; d < D; ++d) {
          sum[static_cast<size_t>(d)] += factor * static_cast<Wide>(in[r * D + d]);
        }
      }
      for (int64_t d = 0; d < D; ++d) out[t * D + d] = static_cast<T>(sum[static_cast<size_t>(d)]);
    }
  });
}

}  // namespace

Routing route(const at::Tensor& logits, int64_t top_k, bool renormalise, const at::Tensor& chosen) {
  XRUN_CHECK(logits.dim() == 2 && top_k >= 1 && top_k <= logits.size(1),
             "route: top_k is {}, wanted 1 to the {} experts", top_k,
             logits.dim() == 2 ? logits.size(1) : 0);
  Routing routing;
  routing.prob = at::softmax(logits, -1, wide_type(logits));
  // A stable sort keeps equal probabilities in order of index; topk does not.
  const at::Tensor order = std::get<1>(
      at::sort(routing.prob.detach(), /*stable=*/true, /*dim=*/-1, /*descending=*/true));
  routing.index = order.narrow(1, 0, top_k).contiguous();
  // The experts of a token with -1 were not recorded; the router chooses them.
  if (chosen.defined()) {
    const at::Tensor known = chosen.to(routing.index.device());
    routing.index = at::where(known.lt(0).any(1, /*keepdim=*/true), routing.index, known);
  }
  at::Tensor weight = routing.prob.gather(1, routing.index);
  // norm_topk_prob of Qwen3-MoE.
  if (renormalise) weight = weight.div(weight.sum(-1, /*keepdim=*/true));
  routing.weight = weight.to(logits.scalar_type());
  return routing;
}

// prob fp32; index int64; weight before and after the division, fp32.
void route_saves(SavedTensors& saved, double experts, double top_k) {
  saved.add_bytes("router_prob", 4 * experts);
  saved.add_bytes("router_index", 8 * top_k);
  saved.add_bytes("router_weight", 8 * top_k);
}

// A counting sort by expert, stable in the slots.
ExpertRows expert_rows(const at::Tensor& index, int64_t experts) {
  const at::Tensor dense = index.contiguous();
  const int64_t T = index.size(0), k = index.size(1), slots = T * k;
  const int64_t* const expert = dense.const_data_ptr<int64_t>();
  ExpertRows rows;
  // begin [E + 1]: the rows of expert e are begin[e] to begin[e + 1].
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
  // r rises, so each token lists its rows in rising order.
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
                                  [&] { sum_rows_of<scalar_t>(x, weight, rows, y); });
  return y;
}

// The balance loss needs only the counts of tokens and the sums of probabilities of a layer.
void RouterRecord::add_layer(const Routing& routing, const at::Tensor& multiplicity) {
  const int64_t experts = routing.prob.size(1);
  top_k = routing.index.size(1);
  // float64: counts of a whole step add without rounding
  if (!multiplicity.defined()) {
    tokens = routing.prob.size(0);
    layers.push_back(
        {at::bincount(routing.index.flatten(), {}, experts).to(at::kDouble), routing.prob.sum(0)});
    return;
  }
  // A folded token counts once for each segment that shares it.
  tokens = multiplicity.sum().item<int64_t>();
  const at::Tensor slots = multiplicity.to(at::kDouble).repeat_interleave(top_k);
  layers.push_back({at::bincount(routing.index.flatten(), slots, experts),
                    routing.prob.mul(multiplicity.unsqueeze(1)).sum(0)});
}

void RouterTotals::add(const RouterRecord& record) {
  XRUN_CHECK(count.empty() || record.layers.empty() || count.size() == record.layers.size(),
             "a record of {} MoE layers cannot be added to totals of {}", record.layers.size(),
             count.size());
  for (size_t i = 0; i < record.layers.size(); ++i) {
    const RouterRecord::Layer& layer = record.layers[i];
    // Without its graph, which balance_share takes from the record.
    const at::Tensor prob = layer.prob_sum.detach().to(at::kDouble);
    if (count.size() <= i) {
      count.push_back(layer.count);
      prob_sum.push_back(prob);
    } else {
      count[i] = count[i].add(layer.count);
      prob_sum[i] = prob_sum[i].add(prob);
    }
  }
  tokens += static_cast<double>(record.tokens);
  top_k = record.top_k;
}

// f_e P_e = count_e prob_sum_e / tokens^2, and the division comes once, at the end.
double balance(const RouterTotals& totals) {
  if (totals.tokens == 0 || totals.count.empty()) return 0;
  double sum = 0;
  for (size_t i = 0; i < totals.count.size(); ++i) {
    sum += at::dot(totals.count[i], totals.prob_sum[i]).item<double>() *
           static_cast<double>(totals.count[i].size(0));
  }
  return sum / (totals.tokens * totals.tokens * static_cast<double>(totals.count.size()));
}

at::Tensor balance_share(const RouterRecord& record, const RouterTotals& step) {
  at::Tensor sum = at::zeros({}, at::kFloat);
  if (step.tokens == 0) return sum;
  for (size_t i = 0; i < record.layers.size(); ++i) {
    const double scale = static_cast<double>(step.count[i].size(0)) /
                         (step.tokens * step.tokens * static_cast<double>(step.count.size()));
    const at::Tensor& prob_sum = record.layers[i].prob_sum;
    sum = sum.add(at::dot(prob_sum, step.count[i].mul(scale).to(prob_sum.scalar_type())));
  }
  return sum;
}

// A load of 1 is balanced, a load of 0 is an idle expert.
ExpertLoad expert_load(const RouterTotals& totals) {
  ExpertLoad load;
  if (totals.tokens == 0 || totals.count.empty()) return load;
  int64_t idle = 0, all = 0;
  double least = 0, most = 0;
  for (size_t i = 0; i < totals.count.size(); ++i) {
    const at::Tensor count = totals.count[i].contiguous();
    const double* const slots = count.const_data_ptr<double>();
    const auto experts = count.size(0);
    const auto [low, high] = std::minmax_element(slots, slots + experts);
    least = i == 0 ? *low : std::min(least, *low);
    most = std::max(most, *high);
    idle += std::count(slots, slots + experts, 0.0);
    all += experts;
  }
  const double even = totals.tokens * static_cast<double>(totals.top_k) /
                      static_cast<double>(totals.count.front().size(0));
  load.largest = most / even;
  load.smallest = least / even;
  load.idle = static_cast<double>(idle) / static_cast<double>(all);
  return load;
}

}  // namespace xrun
