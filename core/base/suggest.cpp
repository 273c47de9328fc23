#include "core/base/suggest.h"

#include <fmt/core.h>

#include <algorithm>

namespace xrun {

int edit_distance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<int> cost((a.size() + 1) * width);
  for (size_t i = 0; i <= a.size(); ++i) cost[i * width] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) cost[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      int best = std::min({cost[(i - 1) * width + j] + 1, cost[i * width + j - 1] + 1,
                           cost[(i - 1) * width + j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = std::min(best, cost[(i - 2) * width + j - 2] + 1);
      }
      cost[i * width + j] = best;
    }
  }
  return cost.back();
}

namespace {

size_t common_beginning(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  const int limit = std::min(2, std::max(1, static_cast<int>(name.size()) / 2));
  int best = limit + 1;
  std::string nearest;
  for (const std::string& candidate : known) {
    const int distance = edit_distance(name, candidate);
    const bool tie = distance == best && !nearest.empty();
    if (distance < best ||
        (tie && common_beginning(name, candidate) > common_beginning(name, nearest))) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known,
                         std::string_view prefix) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? "" : fmt::format("; did you mean `{}{}`?", prefix, near);
}

}  // namespace xrun
