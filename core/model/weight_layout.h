#pragma once
// The weights of a model, and how each lies in a checkpoint: as it is, or transposed.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/model/safetensors.h"

namespace xrun {

struct ModelConfig;

// One weight of a model. Linear maps are [out, in] in memory.
struct WeightSpec {
  enum class Layout { kPlain, kTransposed };
  std::string name;            // in memory and in the file
  std::vector<int64_t> shape;  // in memory
  Layout layout = Layout::kPlain;
};

// The weights a config asks for, in order of use.
std::vector<WeightSpec> weight_specs(const ModelConfig& config);

// The prefix that every name of a folder leaves out, of those that a family may leave out; "" if
// none.
std::string missing_prefix(const SafetensorsFolder& files, const ModelConfig& config);

struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// The tensor that holds a weight in a file.
//   missing  what the file's names leave out (missing_prefix)
StoredTensor stored_tensor(const WeightSpec& spec, const std::string& missing);

// Reads a weight into its form in memory, contiguous, in the file's type.
at::Tensor read_weight(const WeightSpec& spec, const SafetensorsFolder& files,
                       const std::string& missing);

// The weight as it is written, [in, out] where the family has it so.
NamedTensor stored_form(const WeightSpec& spec, const at::Tensor& weight);

}  // namespace xrun
