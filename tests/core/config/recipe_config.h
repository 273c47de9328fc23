#pragma once
// Configs resolved from the text of a recipe, for tests.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/config.h"

namespace xrun {

inline Config read_config(const std::string& body, std::vector<std::string> sets = {}) {
  return Config::resolve(scan_recipe("dpo.lua", body), sets);
}

// The first line of the UsageError.
inline std::string resolve_error(const std::string& body, std::vector<std::string> sets = {}) {
  try {
    read_config(body, std::move(sets));
  } catch (const UsageError& e) {
    return std::string(e.what()).substr(0, std::string_view(e.what()).find('\n'));
  }
  return "no error";
}

inline std::string config_text(const std::string& inside, const std::string& after = "") {
  return "local cfg = xrun.config {\n" + inside + "\n}\n" + after;
}

}  // namespace xrun
