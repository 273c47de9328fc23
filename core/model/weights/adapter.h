#pragma once
// A low-rank adapter (Hu et al. 2021): W x + scale B (A drop(x)) on linear maps of the blocks.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace xrun {

struct ModelConfig;

struct AdapterOptions {
  int64_t rank = 16;
  double alpha = 32;
  bool by_root = false;  // scale = alpha / sqrt(rank), PEFT's use_rslora; else alpha / rank
  double dropout = 0;    // of x, in training, at least 0 and below 1
  // roles of modules: "q_proj", "c_attn"; "all": every linear map of the blocks
  std::vector<std::string> targets = {"all"};
  // false: B starts at 0 and A uniform in +-1/sqrt(in), as in the paper and PEFT; true: A starts at
  // 0 and B uniform in +-1/sqrt(rank)
  bool zero_a = false;
};

// A linear map that can be adapted.
struct LinearModule {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  int64_t out = 0, in = 0;
};

// Returns the linear maps of all blocks, in the order of the weights: no embeddings, head, router
// or experts.
std::vector<LinearModule> linear_modules(const ModelConfig& config);

// Returns the role of a module, the last part of its name: "q_proj".
std::string module_role(const std::string& module);

// Returns true if the options adapt this linear map.
bool is_adapter_target(const AdapterOptions& options, const LinearModule& module);

// Returns the elements of an adapter's factors, as a double: a hostile config's product must not
// wrap.
double adapter_elements(const AdapterOptions& options, const ModelConfig& config);

// The factors of one linear map.
struct AdapterFactors {
  std::string module;
  at::Tensor a, b;  // [rank, in], [out, rank], fp32
};

// The names of the factors among a model's parameters: MODULE.lora_A.weight.
std::string factor_a_name(const std::string& module);
std::string factor_b_name(const std::string& module);

struct Adapter {
  AdapterOptions options;
  std::vector<AdapterFactors> factors;  // in the order of linear_modules

  double scale() const;
};

// Throws UsageError for an option out of range, and for a target that names no linear map of the
// model's blocks, listing those that exist.
void check_adapter_options(const AdapterOptions& options, const ModelConfig& config);

// Makes the factors of every targeted linear map; a pure function of (options, config,
// seed). Throws as check_adapter_options.
std::shared_ptr<Adapter> make_adapter(const AdapterOptions& options, const ModelConfig& config,
                                      uint64_t seed);

// Returns W + scale B A, computed in fp32, [out, in] fp32.
at::Tensor merged_weight(const at::Tensor& weight, const AdapterFactors& factors, double scale);

}  // namespace xrun
