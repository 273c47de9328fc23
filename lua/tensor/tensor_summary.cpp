#include "lua/tensor/tensor_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "core/base/strings.h"
#include "core/console/terminal/table.h"
#include "core/model/ops/tensor_statistics.h"
#include "lua/tensor/tensor.h"
#include "lua/tensor/tensor_values.h"

namespace xrun {
namespace {

constexpr int64_t kMostRows = 24;  // lines of values; fewer from each end beyond
constexpr int64_t kTooMany = 100;  // lines that nobody reads: none is shown
constexpr int64_t kCellWidth = 9;  // "-0.12345, " is seldom exceeded

// Lines that the values take.
int64_t rows_of(const at::Tensor& tensor, const ValueLayout& layout) {
  int64_t count = 1;
  for (int64_t d = 0; d + 1 < tensor.dim(); ++d) {
    const int64_t size = tensor.size(d);
    count *= size > layout.longest ? 2 * layout.edge + 1 : std::max<int64_t>(size, 1);
    count = std::min<int64_t>(count, kTooMany);
  }
  return count;
}

// Values at the edges that fit the width and a few lines.
ValueLayout layout_for(const at::Tensor& tensor, int width) {
  const int64_t cells = (width - tensor.dim() - 4) / kCellWidth;
  ValueLayout layout{.longest = std::clamp<int64_t>(cells, 3, 8), .edge = 3, .aligned = true};
  layout.edge = (layout.longest - 1) / 2;
  while (layout.edge > 1 && rows_of(tensor, layout) > kMostRows) {
    --layout.edge;
    layout.longest = 2 * layout.edge + 1;
  }
  return layout;
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

// Parts two blanks apart, in as many lines as they need.
std::string in_lines(const std::vector<std::string>& parts, int width) {
  std::string out;
  size_t column = 0;
  for (const std::string& part : parts) {
    const bool fits = column > 0 && column + 2 + part.size() <= static_cast<size_t>(width);
    out += (fits ? "  " : "\n  ") + part;
    column = (fits ? column : 0) + 2 + part.size();
  }
  return out;
}

std::string statistics_text(const at::Tensor& tensor, int width) {
  const TensorStatistics found = tensor_statistics(tensor);
  std::string text;
  if (found.sampled < found.elements) {
    text += fmt::format("\n  of {} of its {} values, evenly spread:", count_text(found.sampled),
                        count_text(found.elements));
  }
  std::vector<std::string> parts;
  if (found.finite == 0) {
    parts.push_back("no finite value");
  } else {
    parts = {"min " + number(found.min), "mean " + number(found.mean), "max " + number(found.max),
             "std " + number(found.deviation)};
  }
  if (at::isFloatingType(tensor.scalar_type())) {
    parts.push_back("nan " + count_text(found.nans));
    if (found.infinities > 0) parts.push_back("inf " + count_text(found.infinities));
  }
  text += in_lines(parts, width);
  if (found.finite > 0 && found.max > found.min) {
    constexpr size_t kBins = TensorStatistics::kBins;
    // Neighbours are put together where the line would not fit.
    const size_t together = width < 60 ? 2 : 1;
    std::array<int64_t, kBins> counts{};
    for (size_t bin = 0; bin < kBins; ++bin) counts[bin / together] += found.histogram[bin];
    text += fmt::format("\n  {}  {} to {}", bar_line({counts.data(), kBins / together}),
                        number(found.min), number(found.max));
  }
  return text;
}

}  // namespace

std::string tensor_line(const at::Tensor& tensor) {
  std::string text = describe_tensor(tensor);
  if (!has_values(tensor) || tensor.numel() != 1) return text;
  return text + " " + tensor_values(tensor.detach().reshape({}));
}

std::string tensor_summary(const at::Tensor& tensor, int width) {
  std::string text = describe_tensor(tensor);
  if (!has_values(tensor)) return text;
  const ValueLayout layout = layout_for(tensor, width);
  const bool shown = rows_of(tensor, layout) < kTooMany;
  if (shown) text += (tensor.dim() == 0 ? " " : "\n ") + tensor_values(tensor, layout);
  const bool whole = shown && !is_cut(tensor, layout);
  if (!whole && has_statistics(tensor)) text += statistics_text(tensor, width);
  return text;
}

}  // namespace xrun
