// {"touched": true, "touched_steps": [3, 7]}

#include "core/run/record/hand_changes.h"

#include <fmt/core.h>

namespace xrun {

std::string hand_changes_text(const Json& record) {
  const Json* touched = record.find("touched");
  if (touched == nullptr || !touched->is_bool() || !touched->as_bool()) return "";
  constexpr size_t kListed = 10;
  const Json* steps = record.find("touched_steps");
  if (steps == nullptr || !steps->is_array() || steps->size() == 0) return "at a step";
  std::string list;
  size_t listed = 0;
  for (const Json& step : steps->as_array()) {
    if (!step.is_int()) continue;
    if (listed++ == kListed) {
      list += ", ...";
      break;
    }
    list += fmt::format("{}{}", list.empty() ? "" : ", ", step.as_int());
  }
  if (list.empty()) return "at a step";
  return (listed == 1 ? "at step " : "at steps ") + list;
}

}  // namespace xrun
