#include "core/run/record/settings.h"

#include <algorithm>

#include "core/base/json_member.h"

namespace xrun {

namespace {

bool is_plain(const Json& value) { return !value.is_object() && !value.is_array(); }

// A value that is written in one piece.
bool is_leaf(const Json& value) {
  if (is_plain(value) || value.size() == 0) return true;
  if (!value.is_array()) return false;
  return std::all_of(value.as_array().begin(), value.as_array().end(), is_plain);
}

std::string origin_of(const Json& origins, std::string key) {
  std::string origin = text_member(origins, key);
  if (origin.empty()) origin = text_member(origins, key + ".1");
  while (origin.empty()) {
    const size_t dot = key.rfind('.');
    if (dot == std::string::npos) break;
    key.resize(dot);
    origin = text_member(origins, key);
  }
  return origin;
}

void add(const Json& value, const std::string& key, const Json& origins,
         std::vector<Setting>& out) {
  if (is_leaf(value)) {
    out.push_back({key, value, origin_of(origins, key)});
    return;
  }
  const std::string before = key.empty() ? "" : key + ".";
  if (value.is_object()) {
    for (const auto& [name, member] : value.as_object()) add(member, before + name, origins, out);
    return;
  }
  size_t number = 0;
  for (const Json& element : value.as_array()) {
    add(element, before + std::to_string(++number), origins, out);
  }
}

}  // namespace

std::vector<Setting> flat_settings(const Json& config, const Json& origins) {
  std::vector<Setting> out;
  if (config.is_object() && config.size() > 0) add(config, "", origins, out);
  return out;
}

}  // namespace xrun
