// W x + scale B A x, scale = alpha / rank, or alpha / sqrt(rank) with by_root (Hu et al. 2021;
// Kalajdzievski 2023). A module is adapted if one of the targets is its role or "all".

#include "core/model/weights/adapter.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/strings.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/weight_layout.h"

namespace xrun {

namespace {

constexpr const char* kAllTargets = "all";
// Beyond the width of any matrix that is adapted.
constexpr int64_t kMaxRank = 1 << 16;

// The roles of the modules, each once, in their order.
std::vector<std::string> target_names(const std::vector<LinearModule>& modules) {
  std::vector<std::string> names;
  for (const LinearModule& module : modules) {
    const std::string name = module_role(module.name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

// Before any weight is read: a typo in a target must not cost a load.
void check_targets(const std::vector<std::string>& targets,
                   const std::vector<LinearModule>& modules) {
  const std::vector<std::string> known = target_names(modules);
  for (const std::string& target : targets) {
    const bool found = std::find(known.begin(), known.end(), target) != known.end();
    if (found || target == kAllTargets) continue;
    throw UsageError(
        fmt::format("lora.targets: no linear map of the blocks is called '{}'{}; there are {}, or "
                    "\"all\" for all of them",
                    target, did_you_mean(target, known), fmt::join(known, ", ")));
  }
}

// Uniform in (-bound, bound), element by element from its counter: the same values in any order.
at::Tensor uniform_tensor(std::vector<int64_t> shape, double bound, uint64_t seed,
                          uint64_t tensor) {
  at::Tensor x = at::empty(shape, at::kFloat);
  float* const out = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double unit = philox_unit(seed, kStreamAdapter, tensor, static_cast<uint64_t>(i));
    out[i] = static_cast<float>(bound * (2 * unit - 1));
  }
  return x;
}

AdapterFactors make_factors(const AdapterOptions& options, const LinearModule& module,
                            uint64_t seed, uint64_t number) {
  // A maps to the rank, B back: A [rank, in], B [out, rank].
  const std::vector<int64_t> a{options.rank, module.in}, b{module.out, options.rank};
  // PEFT's kaiming_uniform_(a = sqrt(5)) is uniform within 1 / sqrt(inputs).
  const auto root = [](int64_t n) { return 1.0 / std::sqrt(static_cast<double>(n)); };
  // One factor is 0, so an adapted model begins as its base.
  if (options.zero_a) {
    return {module.name, at::zeros(a, at::kFloat),
            uniform_tensor(b, root(options.rank), seed, number)};
  }
  return {module.name, uniform_tensor(a, root(module.in), seed, number), at::zeros(b, at::kFloat)};
}

}  // namespace

std::string module_role(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// Every linear map of the blocks except routers, whether it is adapted or not.
std::vector<LinearModule> linear_modules(const ModelConfig& config) {
  constexpr std::string_view kWeight = ".weight";
  // The names of the blocks' weights begin so: "model.layers.".
  const std::string layer = config.names.layer.substr(0, config.names.layer.find('{'));
  std::vector<LinearModule> modules;
  for (const WeightSpec& spec : weight_specs(config)) {
    const bool is_router = spec.name.ends_with("." + config.names.router + ".weight");
    // Only maps of the blocks: norms have one dimension, stacked experts three.
    if (spec.shape.size() != 2 || !spec.name.starts_with(layer) || is_router) continue;
    modules.push_back(
        {spec.name.substr(0, spec.name.size() - kWeight.size()), spec.shape[0], spec.shape[1]});
  }
  return modules;
}

// By role, so that "q_proj" names that map in every layer.
bool is_adapter_target(const AdapterOptions& options, const LinearModule& module) {
  const std::string name = module_role(module.name);
  return std::any_of(
      options.targets.begin(), options.targets.end(),
      [&](const std::string& target) { return target == kAllTargets || target == name; });
}

// For the memory plan, without making any factor.
double adapter_elements(const AdapterOptions& options, const ModelConfig& config) {
  double sum = 0;
  for (const LinearModule& module : linear_modules(config)) {
    if (!is_adapter_target(options, module)) continue;
    // rank x in for A, out x rank for B.
    sum += static_cast<double>(options.rank) *
           (static_cast<double>(module.in) + static_cast<double>(module.out));
  }
  return sum;
}

std::string factor_a_name(const std::string& module) { return module + ".lora_A.weight"; }
std::string factor_b_name(const std::string& module) { return module + ".lora_B.weight"; }

double Adapter::scale() const {
  const auto rank = static_cast<double>(options.rank);
  return options.alpha / (options.by_root ? std::sqrt(rank) : rank);
}

void check_adapter_options(const AdapterOptions& options, const ModelConfig& config) {
  if (options.rank < 1 || options.rank > kMaxRank) {
    throw UsageError(fmt::format("lora.rank is {}, wanted 1 to {}", options.rank, kMaxRank));
  }
  if (!std::isfinite(options.alpha) || options.alpha <= 0) {
    throw UsageError(fmt::format("lora.alpha is {}, wanted a positive number", options.alpha));
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw UsageError(
        fmt::format("lora.dropout is {}, wanted at least 0 and below 1", options.dropout));
  }
  if (options.targets.empty()) {
    throw UsageError("lora.targets is empty; name linear maps, or \"all\" for all of them");
  }
  check_targets(options.targets, linear_modules(config));
}

std::shared_ptr<Adapter> make_adapter(const AdapterOptions& options, const ModelConfig& config,
                                      uint64_t seed) {
  check_adapter_options(options, config);
  const std::vector<LinearModule> modules = linear_modules(config);
  auto adapter = std::make_shared<Adapter>();
  adapter->options = options;
  for (size_t number = 0; number < modules.size(); ++number) {
    if (!is_adapter_target(options, modules[number])) continue;
    // Numbered among all maps, so that the factors of a map do not depend on the other targets.
    adapter->factors.push_back(make_factors(options, modules[number], seed, number));
  }
  return adapter;
}

// For an export, whose weights include the factors.
at::Tensor merged_weight(const at::Tensor& weight, const AdapterFactors& factors, double scale) {
  // W + scale B A, [out, in], in fp32: the caller rounds it once.
  return at::addmm(weight.detach().to(at::kFloat), factors.b.detach(), factors.a.detach(), 1,
                   scale);
}

}  // namespace xrun
