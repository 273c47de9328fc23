#pragma once
// The weights of a model, and how each lies in a checkpoint: as it is, transposed, or one tensor an
// expert.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/model/weights/safetensors.h"

namespace xrun {

struct ModelConfig;

// One weight of a model. Linear maps are [out, in] in memory, experts [E, out, in].
struct WeightSpec {
  enum class Layout { kPlain, kTransposed, kExperts };
  std::string name;            // in memory; in the file too, but for experts that lie one by one
  std::vector<int64_t> shape;  // in memory
  Layout layout = Layout::kPlain;
  // kExperts: what an expert's rows are made of, in equal shares: {"gate_proj", "up_proj"}
  std::vector<std::string> parts = {};
};

// The weights a config asks for, in order of use.
std::vector<WeightSpec> weight_specs(const ModelConfig& config);

// What the folders of one family may do either way.
struct FileForm {
  std::string missing_prefix;  // of the family's, where every name leaves it out; "" if none
  bool fused = false;          // experts lie stacked, as in memory; else one by one
};

// Throws Error, with `where` in front, if a folder has experts in both forms.
FileForm file_form(const SafetensorsFolder& files, const ModelConfig& config,
                   const std::string& where);

struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// The tensors that hold a weight in a file: one, but for experts that lie one by one; there by
// rising expert, then by part.
std::vector<StoredTensor> stored_tensors(const WeightSpec& spec, const FileForm& form);

// Reads a weight into its form in memory, contiguous, in the file's type.
at::Tensor read_weight(const WeightSpec& spec, const SafetensorsFolder& files,
                       const FileForm& form);

// The weight as it is written: [in, out] where the family has it so, experts one by one.
std::vector<NamedTensor> stored_form(const WeightSpec& spec, const at::Tensor& weight);

}  // namespace xrun
