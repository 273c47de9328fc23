// A tensor as text: "f32[4,8] cpu grad", then its values as nested lists, long dimensions cut in
// the middle, then statistics where values are left out.

#include "lua/tensor/tensor_text.h"

#include <ATen/ops/select.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/base/strings.h"
#include "core/console/terminal/table.h"
#include "core/model/ops/tensor_statistics.h"
#include "lua/tensor/dtype_names.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

// ---- values

struct ValueLayout {
  int64_t longest = 8;  // a dimension beyond shows `edge` values at each end
  int64_t edge = 3;
  bool aligned = false;  // numbers of all lists are aligned in columns
};

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

// The shown elements as text, in order, and the lists around them.
class NestedLists {
 public:
  NestedLists(const ValueLayout& layout, int indent) : layout_(layout), indent_(indent) {}

  std::string text(const at::Tensor& tensor) {
    if (layout_.aligned && tensor.dim() > 1) measure(tensor);
    append(tensor, 0);
    return std::move(out_);
  }

 private:
  // The indices of a dimension that are shown; -1 is the gap.
  std::vector<int64_t> shown(int64_t size) const {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < size; ++i) {
      // 0 to edge - 1, the gap, the last `edge`.
      if (size > layout_.longest && i == layout_.edge) {
        indices.push_back(-1);
        i = size - layout_.edge;
      }
      indices.push_back(i);
    }
    return indices;
  }

  // The width of the widest number, so that columns align.
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
      // Numbers are set flush right.
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

// Returns true if the values can be read: dense, not on `meta`.
bool has_values(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.device().type() != at::kMeta;
}

// Returns true if some of its values are left out.
bool is_cut(const at::Tensor& tensor, const ValueLayout& layout) {
  return tensor.numel() > 0 && std::any_of(tensor.sizes().begin(), tensor.sizes().end(),
                                           [&](int64_t size) { return size > layout.longest; });
}

// The values as nested lists; further lines are indented by `indent` blanks. A tensor of no
// dimensions is its value. Reads element by element, which only the few that are shown can afford.
std::string tensor_values(const at::Tensor& tensor, const ValueLayout& layout = {},
                          int indent = 1) {
  return NestedLists(layout, indent).text(tensor.detach());
}

// ---- statistics

constexpr int64_t kMostRows = 24;  // lines of values; fewer from each end beyond
constexpr int64_t kTooMany = 100;  // more lines than anyone reads: no values are shown
constexpr int64_t kCellWidth = 9;  // "-0.12345, " is seldom exceeded

// Lines that the values take.
int64_t rows_of(const at::Tensor& tensor, const ValueLayout& layout) {
  int64_t count = 1;
  for (int64_t d = 0; d + 1 < tensor.dim(); ++d) {
    const int64_t size = tensor.size(d);
    count *= size > layout.longest ? 2 * layout.edge + 1 : std::max<int64_t>(size, 1);
    // Capped before the next product could overflow.
    count = std::min<int64_t>(count, kTooMany);
  }
  return count;
}

// Values at the edges that fit the width and a few lines.
ValueLayout layout_for(const at::Tensor& tensor, int width) {
  const int64_t cells = (width - tensor.dim() - 4) / kCellWidth;
  ValueLayout layout{.longest = std::clamp<int64_t>(cells, 3, 8), .edge = 3, .aligned = true};
  layout.edge = (layout.longest - 1) / 2;
  // Fewer values at each edge until the lines fit.
  while (layout.edge > 1 && rows_of(tensor, layout) > kMostRows) {
    --layout.edge;
    layout.longest = 2 * layout.edge + 1;
  }
  return layout;
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

// Phrases two blanks apart, in as many lines as they need.
std::string in_lines(const std::vector<std::string>& phrases, int width) {
  std::string out;
  size_t column = 0;
  for (const std::string& phrase : phrases) {
    const bool fits = column > 0 && column + 2 + phrase.size() <= static_cast<size_t>(width);
    out += (fits ? "  " : "\n  ") + phrase;
    column = (fits ? column : 0) + 2 + phrase.size();
  }
  return out;
}

std::string statistics_text(const at::Tensor& tensor, int width) {
  const TensorStatistics found = tensor_statistics(tensor);
  std::string text;
  if (found.sampled < found.elements) {
    text += fmt::format("\n  of an even sample, {} of its {} values:", count_text(found.sampled),
                        count_text(found.elements));
  }
  std::vector<std::string> phrases;
  if (found.finite == 0) {
    phrases.push_back("no finite value");
  } else {
    phrases = {"min " + number(found.min), "mean " + number(found.mean), "max " + number(found.max),
               "std " + number(found.deviation)};
  }
  if (at::isFloatingType(tensor.scalar_type())) {
    phrases.push_back("nan " + count_text(found.nans));
    if (found.infinities > 0) phrases.push_back("inf " + count_text(found.infinities));
  }
  text += in_lines(phrases, width);
  if (found.finite > 0 && found.max > found.min) {
    constexpr size_t kBins = TensorStatistics::kBins;
    // Two neighbouring bins share a character where the line would not fit.
    const size_t together = width < 60 ? 2 : 1;
    // The second half of `counts` stays empty if bins are joined.
    std::array<int64_t, kBins> counts{};
    for (size_t bin = 0; bin < kBins; ++bin) counts[bin / together] += found.histogram[bin];
    text += fmt::format("\n  {}  {} to {}", bar_line({counts.data(), kBins / together}),
                        number(found.min), number(found.max));
  }
  return text;
}

}  // namespace

std::string describe_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return "closed Tensor";
  std::string text(short_dtype_name(tensor.scalar_type()));
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

std::string tensor_line(const at::Tensor& tensor) {
  std::string text = describe_tensor(tensor);
  if (!has_values(tensor) || tensor.numel() != 1) return text;
  return text + " " + tensor_values(tensor.detach().reshape({}));
}

std::string tensor_summary(const at::Tensor& tensor, int width) {
  std::string text = describe_tensor(tensor);
  if (!has_values(tensor)) return text;
  const ValueLayout layout = layout_for(tensor, width);
  // Too many lists to read: statistics alone.
  const bool shown = rows_of(tensor, layout) < kTooMany;
  if (shown) text += (tensor.dim() == 0 ? " " : "\n ") + tensor_values(tensor, layout);
  const bool whole = shown && !is_cut(tensor, layout);
  if (!whole && has_statistics(tensor)) text += statistics_text(tensor, width);
  return text;
}

}  // namespace xrun
