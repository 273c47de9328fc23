#include "core/data/rows/row_format.h"

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

}  // namespace xrun
