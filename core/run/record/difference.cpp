// Objects are compared by key and lists by index; everything else by its JSON text.

#include "core/run/record/difference.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr size_t kShownBytes = 60;
constexpr size_t kSharedBytes = 20;  // shown before the first difference

std::string text_of(const Json* value) { return value == nullptr ? "absent" : dump_json(*value); }

// Returns the bytes of a long text around byte `at`, cut between characters.
std::string excerpt(const std::string& text, size_t at) {
  if (text.size() <= kShownBytes) return text;
  // Begins a little before the difference, but early enough to fill the excerpt.
  size_t begin = std::min(at < kSharedBytes ? 0 : at - kSharedBytes, text.size() - kShownBytes);
  while (begin > 0 && is_continuation(text[begin])) --begin;
  return (begin > 0 ? "..." : "") + shortened(text.substr(begin), kShownBytes);
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
    // Keys that only the newer side has come last.
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
              // Lists count from 1 in paths, as in Lua.
              join(path, std::to_string(i + 1)), out);
    }
    return;
  }
  if (both && *before == *now) return;
  const std::string from = text_of(before), to = text_of(now);
  // Both sides are shown from about the same byte, so that a reader can compare them.
  const auto apart = std::mismatch(from.begin(), from.end(), to.begin(), to.end()).first;
  const auto at = static_cast<size_t>(apart - from.begin());
  out.push_back({path, excerpt(from, at), excerpt(to, at)});
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
    text += fmt::format("  {}: {} -> {}\n", path, before, now);
  }
  return text;
}

}  // namespace xrun
