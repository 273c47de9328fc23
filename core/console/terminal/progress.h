#pragma once
// Progress of a run and of a long task: one redrawn line on a terminal, rare plain lines elsewhere.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/console/terminal/console.h"

namespace xrun {

// Returns seconds since a fixed time; tests pass their own clock.
using SecondsClock = std::function<double()>;
double steady_seconds();

// One finished step of a run; its body is one pass through the recipe's loop.
struct StepProgress {
  int64_t done = 0;   // bodies done, this one included
  int64_t total = 0;  // bodies of the phase; 0: unknown
  double epoch = 0;   // epochs done, this body included
  double epochs = 0;  // epochs of the phase; shown if there is more than one
  std::optional<double> loss = {};
  std::optional<double> accuracy = {};
  int64_t tokens = 0;                      // of this step
  double update_s = 0;                     // seconds of its update; 0: those of the body
  double flops = 0;                        // of its update
  double peak_flops = 0;                   // per second, of this machine; 0: unknown
  std::optional<double> margin = {};       // shown if there is no accuracy
  std::optional<double> reward = {};       // mean over the step's rollouts
  std::optional<double> kd = {}, ce = {};  // of distillation; shown without accuracy and margin
  int64_t measure_every = 0;               // bodies between evaluations; 0: unknown
};

// Prints "step 57/120  epoch 1.4/3  loss 0.4213  accuracy 0.81  1,240 tokens/s  2m 10s left".
// Tokens/s is the speed of the updates alone. The time left is that of the bodies and evaluations
// to come; it ignores the first body once there is a second, because the first often includes
// preparation. Both are exponential means, weight 0.1. A line stays for the first and the last
// step, for every tenth of the total, and once a second (every 30 s if the output is not a
// terminal). On a terminal, the other steps redraw one line below.
class RunProgress {
 public:
  explicit RunProgress(Console& console, SecondsClock clock = steady_seconds);
  ~RunProgress();  // clears the line

  // Call before the first body of a loop, so that the first step has a duration.
  void start();
  // Call after a wait that does not count for a body, such as an open prompt.
  void skip_wait();
  // Call after an evaluation or sample of the current body, with its duration.
  void add_measuring(double seconds) { measuring_s_ += seconds; }
  // Returns the mean seconds of a body without its evaluations; 0 before the first one.
  double body_seconds() const { return body_s_; }
  // Prints or redraws the line; returns it if it stays, else "".
  std::string step(const StepProgress& progress);
  void finish();

 private:
  std::string line(const StepProgress& progress) const;
  double seconds_left(const StepProgress& progress) const;

  Console& console_;
  SecondsClock clock_;
  double last_ = 0, last_printed_ = 0;
  double body_s_ = 0, update_s_ = 0, tokens_ = 0, flops_ = 0;  // means
  double measuring_s_ = 0;                                     // of the current body
  double measured_s_ = 0;                                      // mean of the bodies that evaluate
  int64_t steps_ = 0, measured_ = 0, measured_later_ = 0, printed_done_ = -1;
};

// Shows "caching pairs.jsonl  120/300 rows  3s left" once a task has taken 2 seconds; without a
// terminal, as a line every 30 s.
class TaskProgress {
 public:
  TaskProgress(Console& console, const std::string& what, std::string unit,
               SecondsClock clock = steady_seconds);
  ~TaskProgress();  // clears the line; an unfinished task prints nothing more

  // Cheap to call often: mostly it reads the clock and returns. total 0: unknown.
  void update(int64_t done, int64_t total);

 private:
  Console& console_;
  std::string what_, unit_;
  SecondsClock clock_;
  double began_, shown_;
};

// Returns "0.033", "3", "27.8", "444": at most one decimal from 1 on, none from 100 on.
std::string format_epochs(double epochs);
// Returns "45s", "2m 10s", "3h 05m", rounded up.
std::string format_duration(double seconds);
// Returns "0.6931", "12.3", "1.2e-05": about four significant digits.
std::string format_metric(double value);

}  // namespace xrun
