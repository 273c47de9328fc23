#pragma once
// Checks that a folder's weights fit into memory, are those that its config.json asks for, and are
// finite.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/model/weights/weight_layout.h"

namespace xrun {

struct ModelConfig;

// Throws one Error that lists all missing, unexpected and misshapen tensors. A head beside a tied
// embedding and the buffers of the family are allowed.
//   form  of the folder (file_form)
void check_weight_names(const SafetensorsFolder& files, const ModelConfig& config,
                        const FileForm& form, const std::string& where);

// Throws Error if a folder has no weights, or others than its configuration asks for. Reads the
// headers of its files, no values.
void check_weight_files(const std::filesystem::path& dir, const ModelConfig& config);

// Returns a notice for a folder that holds a head beside the embedding it is tied to; "" for others
// and for files that cannot be read, which fail when they are loaded.
std::string tied_head_notice(const std::filesystem::path& dir, const ModelConfig& config);

// Returns the bytes of a model's weights in a type, capped at 2^56.
int64_t weight_bytes(const ModelConfig& config, c10::ScalarType dtype);

// Throws Error, with `where` in front, if the weights in a type exceed the available memory.
//   available  bytes (ops/device_memory.h); 0: unknown, nothing is refused
void check_weights_fit(const ModelConfig& config, c10::ScalarType dtype, int64_t available,
                       const std::string& where);

// Checks weights one by one as they are read, and reports the bad ones together.
class WeightValues {
 public:
  // `type` is the type that the weights will be rounded to.
  explicit WeightValues(at::ScalarType type) : type_(type) {}

  void saw(const std::string& name, const at::Tensor& weight);
  // Throws one Error that lists the tensors that hold NaN or infinity, or overflow in the type.
  void finish(const std::string& where) const;

 private:
  at::ScalarType type_;
  std::vector<std::string> broken_, too_large_;
};

}  // namespace xrun
