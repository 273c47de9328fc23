#pragma once
// Text of answers: cut at stop strings while it arrives, and compared with a known answer.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// Cuts a text at its first stop string, and releases each piece once no stop string can begin in
// it. The text ends where the stop string begins that is complete first (of several complete at one
// position, the longest), whatever the pieces were. One object scans one text. Not thread-safe.
class StopText {
 public:
  explicit StopText(const std::vector<std::string>& stops) : stops_(stops) {}

  // Takes the next piece; returns the text that is now certain, often "". Returns "" after a stop.
  std::string push(std::string_view piece);
  // Returns the text held back because a stop string might have begun in it.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  const std::vector<std::string>& stops_;
  std::string held_;
  bool stopped_ = false;
};

// Throws UsageError for a stop string that is empty or not UTF-8.
void check_stop_strings(const std::vector<std::string>& stops);

// Returns true if `text` contains `answer` as whole words, ignoring case: an ASCII letter or digit
// at either end of the answer must not be next to another one. Letters of other scripts, some of
// which have no spaces, may be. Returns false for an empty answer.
bool holds_answer(std::string_view text, std::string_view answer);

}  // namespace xrun
