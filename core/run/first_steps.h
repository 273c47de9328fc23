#pragma once
// Compares the first steps of a bundle's run with those that the bundle recorded, bit by bit.

#include <cstddef>
#include <string>
#include <vector>

#include "core/run/record/difference.h"
#include "core/share/recorded_run.h"

namespace xrun {

// Inputs of FirstSteps that come from this run.
struct FirstStepsTerms {
  Json machine, environment;         // as run.json has them
  std::vector<Difference> settings;  // from the bundle's, of those that decide numbers
  bool force = false;                // a differing step is reported but does not end the run
};

// Compares each of a run's first steps with the recorded one as it ends:
//   - on the recorded kind of machine the metrics must have the same bits;
//   - on another kind the first differing step is reported;
//   - with other settings nothing is compared.
// One object per run.
class FirstSteps {
 public:
  FirstSteps(LockedRun recorded, FirstStepsTerms terms);

  // Returns the notice to print before step 0: why steps are not compared or may differ; "" if
  // neither holds.
  std::string comparison_notice() const;
  // Compares the metrics of a body that has ended. Returns a line to print, or "". If they differ
  // on the recorded kind of machine, and without `force`, throws Error that names the metric.
  std::string compare(const Json& metrics);
  // Returns the line to print for a run that ends before the last recorded step, or "".
  std::string end();

 private:
  bool compares() const { return terms_.settings.empty(); }
  std::string same_text() const;

  LockedRun recorded_;
  FirstStepsTerms terms_;
  std::vector<std::string> machine_;  // differences from the recorded kind of machine, in words
  size_t next_ = 0;                   // index of the next recorded step
  size_t equal_ = 0;                  // recorded steps from the first on that had the same bits
  bool differs_ = false;              // a step did not have the same bits
  bool reported_ = false;             // same_text was returned
};

}  // namespace xrun
