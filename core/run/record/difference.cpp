#include "core/run/record/difference.h"

#include <fmt/core.h>

#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr size_t kShownBytes = 60;

std::string show(const Json* value) {
  if (value == nullptr) return "absent";
  return shortened(dump_json(*value), kShownBytes);
}

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

// Requires that at least one side is given.
void compare(const Json* before, const Json* now, const std::string& path,
             std::vector<Difference>& out) {
  const bool both = before != nullptr && now != nullptr;
  if (both && before->is_object() && now->is_object()) {
    for (const auto& [key, value] : before->as_object()) {
      compare(&value, now->find(key), join(path, key), out);
    }
    for (const auto& [key, value] : now->as_object()) {
      if (before->find(key) == nullptr) compare(nullptr, &value, join(path, key), out);
    }
    return;
  }
  if (both && before->is_array() && now->is_array()) {
    const auto& a = before->as_array();
    const auto& b = now->as_array();
    for (size_t i = 0; i < a.size() || i < b.size(); ++i) {
      compare(i < a.size() ? &a[i] : nullptr, i < b.size() ? &b[i] : nullptr,
              join(path, std::to_string(i + 1)), out);
    }
    return;
  }
  if (both && *before == *now) return;
  out.push_back({path, show(before), show(now)});
}

}  // namespace

std::vector<Difference> find_differences(const Json& before, const Json& now,
                                         const std::string& path) {
  std::vector<Difference> out;
  compare(&before, &now, path, out);
  return out;
}

std::string describe_differences(const std::vector<Difference>& differences) {
  std::string text;
  for (const auto& [path, before, now] : differences) {
    text += fmt::format("  {}: {}, was {}\n", path, now, before);
  }
  return text;
}

}  // namespace xrun
