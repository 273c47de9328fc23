// cosine = sum a b / (|a| |b|) over the weights of a group, with sums in double: an embedding has
// millions of elements, and float sums of them lose three digits.

#include "core/train/objective_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/model/model.h"
#include "core/train/adamw.h"
#include "core/train/evaluate.h"

namespace xrun {

namespace {

// "model.layers.*.mlp.up_proj.weight"
std::string group_of(const std::string& name) {
  std::string group;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, end - at);
    // Layers share a group: 30 angles of 24 layers each would hide what differs.
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    group += (at == 0 ? "" : ".") + (number ? std::string("*") : part);
    at = end + 1;
  }
  return group;
}

struct ProductSums {
  double dot = 0, first = 0, second = 0;  // squares

  void add(const ProductSums& other) {
    dot += other.dot;
    first += other.first;
    second += other.second;
  }
  GradientAngle angle(const std::string& group) const {
    const double a = std::sqrt(first), b = std::sqrt(second);
    // A ratio to a gradient of 0 is infinite, or 1 if both are 0.
    const double none = b > 0 ? std::numeric_limits<double>::infinity() : 1;
    return {group, a > 0 && b > 0 ? dot / (a * b) : 0, a > 0 ? b / a : none};
  }
};

double dot_of(const at::Tensor& a, const at::Tensor& b) {
  // In blocks: a double copy of an embedding takes twice its size.
  constexpr int64_t kBlock = int64_t{1} << 20;
  const at::Tensor x = a.reshape({-1}), y = b.reshape({-1});
  double sum = 0;
  for (int64_t begin = 0; begin < x.numel(); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, x.numel());
    const auto block = [&](const at::Tensor& of) {
      return of.slice(0, begin, end).to(at::kDouble);
    };
    sum += block(x).mul(block(y)).sum().item().toDouble();
  }
  return sum;
}

const at::Tensor* find(const ObjectiveGradient& gradient, const std::string& name) {
  const auto found = std::find(gradient.names.begin(), gradient.names.end(), name);
  if (found == gradient.names.end()) return nullptr;
  return &gradient.gradients[static_cast<size_t>(found - gradient.names.begin())];
}

}  // namespace

ObjectiveGradient objective_gradient(const std::vector<StepTerm>& terms, AdamW& adamw,
                                     const StepOptions& options) {
  // The next step of the run must draw the same numbers, whether or not somebody looked.
  const RandomScope random;
  ObjectiveGradient out;
  StepOptions reading = options;
  reading.read_gradients = [&] {
    for (const NamedTensor& gradient : adamw.gradients()) {
      out.names.push_back(gradient.name);
      // A copy on the host: the step clears its gradients when the callback returns.
      out.gradients.push_back(
          gradient.tensor.detach().to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true));
    }
  };
  out.metrics = train_step(terms, &adamw, reading);
  out.norm = find_metric(out.metrics, "grad_norm").value_or(0);
  return out;
}

std::vector<GradientAngle> compare_gradients(const ObjectiveGradient& first,
                                             const ObjectiveGradient& second) {
  std::vector<std::string> names = first.names;
  for (const std::string& name : second.names) {
    if (find(first, name) == nullptr) names.push_back(name);
  }
  ProductSums all;
  std::vector<std::pair<std::string, ProductSums>> groups;  // in the order of the weights
  for (const std::string& name : names) {
    const at::Tensor *a = find(first, name), *b = find(second, name);
    ProductSums sums;
    if (a != nullptr) sums.first = dot_of(*a, *a);
    if (b != nullptr) sums.second = dot_of(*b, *b);
    if (a != nullptr && b != nullptr) sums.dot = dot_of(*a, *b);
    all.add(sums);
    const std::string group = group_of(name);
    auto known = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& one) { return one.first == group; });
    if (known == groups.end()) known = groups.insert(groups.end(), {group, {}});
    known->second.add(sums);
  }
  std::vector<GradientAngle> angles = {all.angle("all")};
  for (const auto& [group, sums] : groups) angles.push_back(sums.angle(group));
  return angles;
}

}  // namespace xrun
