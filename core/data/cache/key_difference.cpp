#include "core/data/cache/key_difference.h"

#include <fmt/core.h>

#include <algorithm>

namespace xrun {

namespace {

constexpr size_t kShown = 60;   // bytes of a value
constexpr size_t kBefore = 20;  // of them, before the first difference

std::string text_of(const Json* value) { return value ? dump_json(*value) : "(absent)"; }

// The text around byte `at`. It may split a character, which does not matter in a hash or a path.
std::string window(const std::string& text, size_t at) {
  if (text.size() <= kShown) return text;
  const size_t begin = std::min(at < kBefore ? 0 : at - kBefore, text.size() - kShown);
  return fmt::format("{}{}{}", begin > 0 ? "..." : "", text.substr(begin, kShown),
                     begin + kShown < text.size() ? "..." : "");
}

class Difference {
 public:
  void compare(const std::string& name, const Json* saved, const Json* now) {
    const std::string a = text_of(saved);
    const std::string b = text_of(now);
    if (a == b) return;
    const auto first = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
    const size_t at = static_cast<size_t>(first - a.begin());
    out_ +=
        fmt::format("{}{}: {} -> {}", out_.empty() ? "" : "\n", name, window(a, at), window(b, at));
  }

  void compare_fields(const std::string& name, const Json& saved, const Json& now) {
    for (const Json::Member& member : saved.as_object()) {
      compare(name + "." + member.first, &member.second, now.find(member.first));
    }
    for (const Json::Member& member : now.as_object()) {
      if (saved.find(member.first) == nullptr) {
        compare(name + "." + member.first, nullptr, &member.second);
      }
    }
  }

  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace

std::string key_difference(const Json& saved, const Json& now) {
  Difference difference;
  if (!saved.is_array() || !now.is_array() || saved.size() != now.size()) {
    difference.compare("data", &saved, &now);
    return difference.take();
  }
  for (size_t s = 0; s < saved.size(); ++s) {
    const Json& before = saved.as_array()[s];
    const Json& today = now.as_array()[s];
    const std::string name = fmt::format("data[{}]", s + 1);
    if (before.is_object() && today.is_object()) {
      difference.compare_fields(name, before, today);
    } else {
      difference.compare(name, &before, &today);
    }
  }
  return difference.take();
}

}  // namespace xrun
