#pragma once
// The check of a bundle's run: its first steps against the recorded ones, bit by bit.

#include <optional>
#include <string>
#include <vector>

#include "core/run/record/difference.h"
#include "core/share/recorded_run.h"

namespace xrun {

// What this run has in place of the recorded one's.
struct FirstStepsTerms {
  Json machine, environment;         // as run.json has them
  std::vector<Difference> settings;  // that decide numbers
  bool force = false;                // a difference is only reported
};

class FirstSteps {
 public:
  FirstSteps(LockedRun recorded, FirstStepsTerms terms);

  // Returns the line before step 0: what will be compared, or why nothing is; "" if that is plain.
  std::string before() const;
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
  std::vector<std::string> machine_;  // what is different about it
  size_t next_ = 0, compared_ = 0;
  std::optional<StepDifference> worst_;
  bool reported_ = false;
};

}  // namespace xrun
