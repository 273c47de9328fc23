// A tensor as text: "f32[4,8] cpu grad", then its values as nested lists. Dimensions longer than
// eight show three values at each end.

#include <fmt/ranges.h>

#include "lua/tensor/dtype_names.h"
#include "lua/tensor/tensor.h"
#include "lua/tensor/tensor_values.h"

namespace xrun {

std::string describe_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return "closed Tensor";
  std::string text(dtype_name(tensor.scalar_type()));
  text += fmt::format("[{}] {}", fmt::join(tensor.sizes(), ","), tensor.device().str());
  if (tensor.layout() != at::kStrided) text += fmt::format(" {}", layout_name(tensor.layout()));
  if (tensor.requires_grad()) text += " grad";
  return text;
}

std::string tensor_text(const at::Tensor& tensor) {
  std::string text = describe_tensor(tensor);
  if (!has_values(tensor)) return text;
  text += tensor.dim() == 0 ? " " : "\n ";
  return text + tensor_values(tensor.cpu());
}

}  // namespace xrun
