#pragma once
// The weights of a model and their layout in a checkpoint: plain, transposed, or one tensor per
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
  std::string name;            // in memory, and in the file unless experts are stored one by one
  std::vector<int64_t> shape;  // in memory
  Layout layout = Layout::kPlain;
  // kExperts: the tensors that share an expert's rows equally: {"gate_proj", "up_proj"}
  std::vector<std::string> parts = {};

  double elements() const;  // as a double: a hostile config's product must not wrap
};

// Returns the weights that a config asks for, in order of use.
std::vector<WeightSpec> weight_specs(const ModelConfig& config);
// Returns their elements.
double weight_elements(const ModelConfig& config);

// Variants of a family's folders.
struct FileForm {
  std::string missing_prefix;  // of the family, if every name omits it; else ""
  bool fused = false;          // experts are stacked, as in memory; else one by one
};

// Returns the form of a folder. Throws Error, with `where` in front, if it has experts in both
// forms.
FileForm file_form(const SafetensorsFolder& files, const ModelConfig& config,
                   const std::string& where);

struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Returns the tensors that hold a weight in a file: one, or for experts stored one by one several,
// by rising expert, then in the order of `parts`.
std::vector<StoredTensor> stored_tensors(const WeightSpec& spec, const FileForm& form);

// Reads a weight into its layout in memory, contiguous, in the file's type.
at::Tensor read_weight(const WeightSpec& spec, const SafetensorsFolder& files,
                       const FileForm& form);

// Returns elements [begin, begin + count) of the weight that read_weight() returns, flat. Reads no
// others from the files, except of a transposed weight, which it reads whole.
at::Tensor read_weight_range(const WeightSpec& spec, const SafetensorsFolder& files,
                             const FileForm& form, int64_t begin, int64_t count);

// Returns the tensors to write for a weight: [in, out] where the family transposes, experts one by
// one.
std::vector<NamedTensor> stored_form(const WeightSpec& spec, const at::Tensor& weight);

}  // namespace xrun
