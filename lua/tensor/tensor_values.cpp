#include "lua/tensor/tensor_values.h"

#include <ATen/ops/select.h>
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "core/base/strings.h"

namespace xrun {
namespace {

std::string element_text(const at::Tensor& element) {
  if (at::isComplexType(element.scalar_type())) {
    const auto value = element.item().toComplexDouble();
    return fmt::format("{:.5g}{:+.5g}i", plain_nan(value.real()), plain_nan(value.imag()));
  }
  if (element.scalar_type() == at::kBool) return element.item().toBool() ? "true" : "false";
  if (at::isIntegralType(element.scalar_type(), true)) {
    return fmt::format("{}", element.item().toLong());
  }
  return fmt::format("{:.5g}", plain_nan(element.item().toDouble()));
}

// Texts of the shown elements in order, and the lists around them.
class Lists {
 public:
  Lists(const ValueLayout& layout, int indent) : layout_(layout), indent_(indent) {}

  std::string text(const at::Tensor& tensor) {
    if (layout_.aligned && tensor.dim() > 1) measure(tensor);
    append(tensor, 0);
    return std::move(out_);
  }

 private:
  // The indices of a dimension that are shown; -1 stands for the gap.
  std::vector<int64_t> shown(int64_t size) const {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < size; ++i) {
      if (size > layout_.longest && i == layout_.edge) {
        indices.push_back(-1);
        i = size - layout_.edge;
      }
      indices.push_back(i);
    }
    return indices;
  }

  void measure(const at::Tensor& tensor) {
    if (tensor.dim() == 0) {
      widest_ = std::max(widest_, element_text(tensor).size());
      return;
    }
    for (const int64_t i : shown(tensor.size(0))) {
      if (i >= 0) measure(at::select(tensor, 0, i));
    }
  }

  void append(const at::Tensor& tensor, int depth) {
    if (tensor.dim() == 0) {
      const std::string text = element_text(tensor);
      out_.append(widest_ > text.size() ? widest_ - text.size() : 0, ' ');
      out_ += text;
      return;
    }
    out_ += '[';
    bool first = true;
    for (const int64_t i : shown(tensor.size(0))) {
      if (!first) {
        out_ += tensor.dim() == 1
                    ? ", "
                    : ",\n" + std::string(static_cast<size_t>(depth + 1 + indent_), ' ');
      }
      first = false;
      if (i < 0) {
        out_ += "...";
      } else {
        append(at::select(tensor, 0, i), depth + 1);
      }
    }
    out_ += ']';
  }

  const ValueLayout& layout_;
  int indent_;
  size_t widest_ = 0;
  std::string out_;
};

}  // namespace

bool has_values(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.device().type() != at::kMeta;
}

bool is_cut(const at::Tensor& tensor, const ValueLayout& layout) {
  return tensor.numel() > 0 && std::any_of(tensor.sizes().begin(), tensor.sizes().end(),
                                           [&](int64_t size) { return size > layout.longest; });
}

std::string tensor_values(const at::Tensor& tensor, const ValueLayout& layout, int indent) {
  return Lists(layout, indent).text(tensor.detach());
}

}  // namespace xrun
