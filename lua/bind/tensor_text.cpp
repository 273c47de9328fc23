// A tensor as text: "f32[4,8] cpu grad", then its values as nested lists. Dimensions longer than
// eight show three values at each end.

#include <ATen/ops/select.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "lua/bind/dtype_names.h"
#include "lua/bind/tensor.h"

namespace xrun {
namespace {

constexpr int64_t kLongest = 8;
constexpr int64_t kEdge = 3;

std::string element_text(const at::Tensor& element) {
  if (at::isComplexType(element.scalar_type())) {
    const auto value = element.item().toComplexDouble();
    return fmt::format("{:.5g}{:+.5g}i", value.real(), value.imag());
  }
  if (element.scalar_type() == at::kBool) return element.item().toBool() ? "true" : "false";
  if (at::isIntegralType(element.scalar_type(), true)) {
    return fmt::format("{}", element.item().toLong());
  }
  return fmt::format("{:.5g}", element.item().toDouble());
}

// The indices of a dimension that are shown; -1 stands for the gap.
std::vector<int64_t> shown(int64_t size) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < size; ++i) {
    if (size > kLongest && i == kEdge) {
      indices.push_back(-1);
      i = size - kEdge;
    }
    indices.push_back(i);
  }
  return indices;
}

void append_values(std::string& out, const at::Tensor& tensor, int depth) {
  if (tensor.dim() == 0) {
    out += element_text(tensor);
    return;
  }
  out += '[';
  bool first = true;
  for (const int64_t i : shown(tensor.size(0))) {
    if (!first) out += tensor.dim() == 1 ? ", " : ",\n" + std::string(depth + 2, ' ');
    first = false;
    if (i < 0) {
      out += "...";
    } else {
      append_values(out, at::select(tensor, 0, i), depth + 1);
    }
  }
  out += ']';
}

}  // namespace

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
  const bool readable =
      tensor.defined() && tensor.layout() == at::kStrided && tensor.device().type() != at::kMeta;
  if (!readable) return text;
  text += tensor.dim() == 0 ? " " : "\n ";
  append_values(text, tensor.detach().cpu(), 0);
  return text;
}

}  // namespace xrun
