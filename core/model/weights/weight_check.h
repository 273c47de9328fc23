#pragma once
// Whether a folder's weights are those that its config.json asks for, and numbers at all.

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/model/weights/weight_layout.h"

namespace xrun {

struct ModelConfig;

// Throws one Error that lists all missing, unexpected and misshapen tensors. A head beside a tied
// embedding and a family's buffers are no surprise.
//   form  of the folder (file_form)
void check_weight_names(const SafetensorsFolder& files, const ModelConfig& config,
                        const FileForm& form, const std::string& where);

// What to say of a folder whose files hold a head beside the embedding that it is tied to; "" if
// they do not, or cannot be read, which loading will say.
std::string tied_head_notice(const std::filesystem::path& dir, const ModelConfig& config);

// Looks at weights one by one as they are read, and reports them together.
class WeightValues {
 public:
  // `type` is what the weights will be rounded to.
  explicit WeightValues(at::ScalarType type) : type_(type) {}

  void saw(const std::string& name, const at::Tensor& weight);
  // Throws one Error that lists the tensors that hold NaN or infinity, or become infinite in the
  // type.
  void finish(const std::string& where) const;

 private:
  at::ScalarType type_;
  std::vector<std::string> broken_, too_large_;
};

}  // namespace xrun
