// prob = softmax(logits);  index, weight = top k of prob;  weight /= sum(weight) if asked.

#include "core/model/moe.h"

#include <ATen/ops/bincount.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/base/error.h"

namespace xrun {

Routing route(const at::Tensor& logits, int64_t top_k, bool renormalise) {
  XRUN_CHECK(logits.dim() == 2 && top_k >= 1 && top_k <= logits.size(1),
             "route: top_k is {}, wanted 1 to the {} experts", top_k,
             logits.dim() == 2 ? logits.size(1) : 0);
  Routing routing;
  routing.prob = at::softmax(logits, -1, at::kFloat);
  // A stable sort keeps equal probabilities in order of index; topk does not.
  const at::Tensor order = std::get<1>(
      at::sort(routing.prob.detach(), /*stable=*/true, /*dim=*/-1, /*descending=*/true));
  routing.index = order.narrow(1, 0, top_k).contiguous();
  at::Tensor weight = routing.prob.gather(1, routing.index);
  if (renormalise) weight = weight.div(weight.sum(-1, /*keepdim=*/true));
  routing.weight = weight.to(logits.scalar_type());
  return routing;
}

void route_saves(SavedTensors& saved, double experts, double top_k) {
  saved.add_bytes("router_prob", 4 * experts);
  saved.add_bytes("router_index", 8 * top_k);
  saved.add_bytes("router_weight", 8 * top_k);
}

void RouterRecord::add_layer(const Routing& routing) {
  const int64_t experts = routing.prob.size(1);
  tokens = routing.prob.size(0);
  top_k = routing.index.size(1);
  layers.push_back(
      {at::bincount(routing.index.flatten(), {}, experts).to(at::kDouble), routing.prob.sum(0)});
}

void RouterTotals::add(const RouterRecord& record) {
  XRUN_CHECK(count.empty() || record.layers.empty() || count.size() == record.layers.size(),
             "a record of {} MoE layers cannot be added to totals of {}", record.layers.size(),
             count.size());
  for (size_t i = 0; i < record.layers.size(); ++i) {
    const RouterRecord::Layer& layer = record.layers[i];
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
    const at::Tensor factor = step.count[i].mul(scale).to(at::kFloat);
    sum = sum.add(at::dot(record.layers[i].prob_sum, factor));
  }
  return sum;
}

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
