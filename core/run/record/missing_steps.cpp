#include "core/run/record/missing_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "core/base/count_text.h"

namespace xrun {

namespace {

constexpr size_t kNamed = 3;  // ranges

}  // namespace

void MissingSteps::has(int64_t step) {
  until(step);
  if (step < std::numeric_limits<int64_t>::max()) next_ = std::max(next_, step + 1);
}

void MissingSteps::until(int64_t end) {
  if (end <= next_) return;
  count_ += end - next_;
  if (ranges_.size() < kNamed) ranges_.emplace_back(next_, end - 1);
  next_ = end;
}

std::string MissingSteps::text() const {
  if (count_ == 0) return "";
  std::string steps;
  int64_t unnamed = count_;
  for (const auto& [first, last] : ranges_) {
    steps += steps.empty() ? "" : ", ";
    steps += first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last);
    unnamed -= last - first + 1;
  }
  if (unnamed > 0) steps += fmt::format(" and {} more", count_text(unnamed));
  return fmt::format("metrics.jsonl has no line of step{} {}", count_ == 1 ? "" : "s", steps);
}

}  // namespace xrun
