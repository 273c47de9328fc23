// One table of known formats. For suggestions the best fit wins; a tie goes to the format listed
// first.

#include "core/data/rows/row_formats.h"

#include <algorithm>

#include "core/base/strings.h"

namespace xrun {

const std::vector<RowFormat>& known_row_formats() {
  static const std::vector<RowFormat> formats = {
      {RowKind::kPreference, {"prompt", "chosen", "rejected"}},
      {RowKind::kPreference, {"chosen", "rejected"}},
      {RowKind::kPreference, {"conversations", "chosen", "rejected"}},
      {RowKind::kChat, {"messages"}},
      {RowKind::kChat, {"conversations"}},
      {RowKind::kChat, {"instruction", "output"}},
      {RowKind::kChat, {"prompt", "completion"}},
      {RowKind::kFeedback, {"prompt", "completion", "label"}},
      {RowKind::kFeedback, {"messages", "label"}},
      {RowKind::kText, {"text"}},
      {RowKind::kPrompts, {"prompt"}},
      {RowKind::kTokens, {"input_ids"}},
      {RowKind::kTokens, {"input_ids", "labels"}},
  };
  return formats;
}

bool has_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_format(const RowFormat& format, const std::vector<std::string>& columns) {
  return std::all_of(format.columns.begin(), format.columns.end(),
                     [&](const std::string& column) { return has_name(columns, column); });
}

bool has_any_format(RowKind kind, const std::vector<std::string>& columns) {
  const std::vector<RowFormat>& formats = known_row_formats();
  return std::any_of(formats.begin(), formats.end(), [&](const RowFormat& format) {
    return format.kind == kind && has_format(format, columns);
  });
}

double format_fit(const RowFormat& format, const std::vector<std::string>& columns) {
  double found = 0;
  for (const std::string& wanted : format.columns) {
    if (has_name(columns, wanted)) {
      found += 1;
    } else if (!nearest_name(wanted, columns).empty()) {
      found += 0.5;
    }
  }
  return found / static_cast<double>(format.columns.size());
}

const RowFormat& nearest_format(RowKind kind, const std::vector<std::string>& columns) {
  // By columns, not their share: chosen and rejected alone are strings without a prompt.
  const auto found = [&](const RowFormat& format) {
    return format_fit(format, columns) * static_cast<double>(format.columns.size());
  };
  const RowFormat* nearest = nullptr;
  for (const RowFormat& format : known_row_formats()) {
    if (format.kind != kind) continue;
    // A tie goes to the format listed first.
    if (nearest == nullptr || found(format) > found(*nearest)) nearest = &format;
  }
  return *nearest;
}

const RowFormat* other_format(RowKind kind, const std::vector<std::string>& columns) {
  const RowFormat* largest = nullptr;
  for (const RowFormat& format : known_row_formats()) {
    const bool tells = format.columns.size() > 1 || columns.size() == 1;
    if (format.kind == kind || !tells || !has_format(format, columns)) continue;
    if (largest == nullptr || format.columns.size() > largest->columns.size()) largest = &format;
  }
  return largest;
}

}  // namespace xrun
