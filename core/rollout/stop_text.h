#pragma once
// Text up to the first stop string, given away as soon as no stop string can begin in it.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// A text ends where the stop string begins that is complete first, of those complete at one place
// the longest: how the text was cut into pieces changes nothing. Not thread-safe; one scan is one
// text.
class StopText {
 public:
  explicit StopText(const std::vector<std::string>& stops) : stops_(stops) {}

  // Takes the next piece; returns the text that is certain now, often "". Nothing behind a stop.
  std::string push(std::string_view piece);
  // Returns what was held back because a stop string might have begun in it.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  const std::vector<std::string>& stops_;
  std::string held_;
  bool stopped_ = false;
};

// Throws UsageError for a stop string that is empty or not UTF-8.
void check_stop_strings(const std::vector<std::string>& stops);

}  // namespace xrun
