// Held back is the longest end of the text that is the beginning of a stop string, so a complete
// one always lies in what is held and the piece behind it.

#include "core/rollout/stop_text.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

// How many bytes at the end of a text may begin one of the stops.
size_t open_end(std::string_view text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops) {
    for (size_t n = std::min(text.size(), stop.size() - 1); n > longest; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace

std::string StopText::push(std::string_view piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t begin = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
      begin = at;
      end = at + stop.size();
    }
  }
  stopped_ = begin != std::string::npos;
  const size_t certain = stopped_ ? begin : held_.size() - open_end(held_, stops_);
  std::string text = held_.substr(0, certain);
  held_.erase(0, certain);
  return text;
}

std::string StopText::finish() {
  std::string rest = std::exchange(held_, "");
  return stopped_ ? "" : rest;
}

void check_stop_strings(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) throw UsageError("a stop string is empty; it would end every answer at once");
    if (!is_valid_utf8(stop))
      throw UsageError(fmt::format("the stop string \"{}\" is not UTF-8", repair_utf8(stop)));
  }
}

}  // namespace xrun
