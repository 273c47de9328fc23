#pragma once
// The check of a bundle's run: its first steps against the recorded ones, bit by bit.

#include <optional>
#include <string>
#include <vector>

#include "core/run/record/difference.h"
#include "core/share/recorded_run.h"

namespace xrun {

// The values of this run that the recorded steps depend on.
struct FirstStepsTerms {
  Json machine, environment;         // as run.json has them
  std::vector<Difference> settings;  // that decide numbers
  bool force = false;                // a difference is only reported
};

// Compares each of a run's first steps with the recorded one as it ends. On the recorded kind of
// machine and with the recorded settings the metrics must have the same bits; on another kind
// differences are reported; with other settings nothing is compared. One object per run.
class FirstSteps {
 public:
  FirstSteps(LockedRun recorded, FirstStepsTerms terms);

  // Returns the notice to print before step 0: why steps are not compared or may differ; "" if
  // neither holds.
  std::string comparison_notice() const;
  // Compares the metrics of a body that has ended. Returns a line to print, or "". Throws Error
  // that names the metric if they differ, on the same kind of machine and without `force`;
  // elsewhere the first difference is a line.
  std::string compare(const Json& metrics);
  // The line of a run that ends before its last recorded step, or "".
  std::string end();

 private:
  bool compares() const { return terms_.settings.empty(); }
  std::string same_text() const;

  LockedRun recorded_;
  FirstStepsTerms terms_;
  std::vector<std::string> machine_;  // differences of its kind, in words
  size_t next_ = 0, compared_ = 0;
  std::optional<StepDifference> worst_;
  bool reported_ = false;
};

}  // namespace xrun
