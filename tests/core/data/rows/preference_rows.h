#pragma once
// Preference rows as text, read as a data set reads them.

#include <string>
#include <utility>
#include <vector>

#include "core/data/rows/preference_row.h"

namespace xrun {

inline const std::string kAsks = R"({"role":"user","content":"hi"})";
inline const std::string kYes = R"({"role":"assistant","content":"yes"})";
inline const std::string kNo = R"({"role":"assistant","content":"no"})";

inline PreferenceRow read_preference(
    const std::string& json, const std::vector<std::pair<std::string, std::string>>& fields = {},
    const std::vector<std::string>& keep = {}) {
  RowSettings settings;
  settings.fields = fields;
  settings.keep = keep;
  return PreferenceReader(settings).read(parse_json(json, "row"));
}

}  // namespace xrun
