// On the recorded kind of machine a differing step is an error, with --force a notice. A notice is
// given once: later steps differ because of the first.

#include "core/run/first_steps.h"

#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

FirstSteps::FirstSteps(LockedRun recorded, FirstStepsTerms terms)
    : recorded_(std::move(recorded)),
      terms_(std::move(terms)),
      machine_(machine_differences(recorded_, terms_.machine, terms_.environment)) {}

std::string FirstSteps::comparison_notice() const {
  if (!compares()) {
    std::string fields;
    for (const Difference& one : terms_.settings) add_item(fields, one.path);
    return fmt::format(
        "the bundle's first steps are not compared: this run has other settings ({})", fields);
  }
  if (machine_.empty()) return "";
  std::string text;
  for (const std::string& one : machine_) add_item(text, one);
  return fmt::format(
      "the bundle's steps were recorded on another kind of machine ({}), so the last digits may "
      "differ",
      text);
}

std::string FirstSteps::same_text() const {
  const int64_t last = recorded_.steps[equal_ - 1].at("step").as_int();
  return last == 0 ? "step 0 is the bundle's, bit for bit"
                   : fmt::format("steps 0 to {} are the bundle's, bit for bit", last);
}

std::string FirstSteps::compare(const Json& metrics) {
  const int64_t step = metrics.at("step").as_int();
  // A resumed run begins at a later step.
  while (next_ < recorded_.steps.size() && recorded_.steps[next_].at("step").as_int() < step)
    ++next_;
  if (!compares() || next_ >= recorded_.steps.size()) return "";
  const Json& wanted = recorded_.steps[next_];
  if (wanted.at("step").as_int() != step) return "";
  const bool from_start = equal_ == next_;
  ++next_;
  const std::optional<StepDifference> apart = compare_step(wanted, metrics);
  if (!apart) {
    if (from_start) ++equal_;
    const bool last = next_ == recorded_.steps.size() && equal_ == next_;
    reported_ = reported_ || last;
    return last ? same_text() : "";
  }
  const bool first = !differs_;
  differs_ = true;
  const std::string text =
      fmt::format("step {}: {} is {}, but {} in the bundle (relative difference {:.1e})",
                  apart->step, apart->metric, apart->now, apart->recorded, apart->relative);
  XRUN_CHECK(!machine_.empty() || terms_.force,
             "{}; this kind of machine should give the same bits; pass --force to continue anyway",
             text);
  return first ? text : "";
}

std::string FirstSteps::end() {
  if (reported_ || equal_ == 0 || differs_) return "";
  reported_ = true;
  return same_text();
}

}  // namespace xrun
