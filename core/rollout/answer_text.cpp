// StopText holds back the longest suffix of the text that may begin a stop string, so a complete
// stop string is always within the held text and the next piece.

#include "core/rollout/answer_text.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

// Returns the number of bytes at the end of `text` that may begin a stop string.
size_t open_end(std::string_view text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops) {
    // - 1: a whole stop string would have been found.
    for (size_t n = std::min(text.size(), stop.size() - 1); n > longest; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

// Of a text in lower case.
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

}  // namespace

std::string StopText::push(std::string_view piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t begin = std::string::npos, end = std::string::npos;
  // The stop string that is complete first; of several complete at one byte the longest.
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
    if (stop.empty()) {
      throw UsageError("a stop string is empty, which would end every answer at once; remove it");
    }
    if (!is_valid_utf8(stop)) {
      throw UsageError(
          fmt::format("the stop string \"{}\" is not UTF-8; write it in UTF-8", repair_utf8(stop)));
    }
  }
}

bool holds_answer(std::string_view text, std::string_view answer) {
  if (answer.empty()) return false;
  const std::string in = lower_case(text), wanted = lower_case(answer);
  for (size_t at = in.find(wanted); at != in.npos; at = in.find(wanted, at + 1)) {
    const size_t after = at + wanted.size();
    // "4" is not held by "42"; an answer that begins with a sign needs no border there.
    const bool begins = at == 0 || !is_word(in[at - 1]) || !is_word(wanted.front());
    const bool ends = after == in.size() || !is_word(in[after]) || !is_word(wanted.back());
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace xrun
