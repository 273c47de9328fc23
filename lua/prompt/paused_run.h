#pragma once
// A paused recipe under the control of a prompt: runs one body, runs it again, or runs to the end.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/run/state_copy.h"
#include "lua/bind/metrics.h"
#include "lua/prompt/pause_hooks.h"

namespace xrun {

// The hooks outlive it. During its lifetime, steps and evaluations that fail or are interrupted
// pause the recipe at the call. Each verb leaves a line in the run's log. Not thread-safe.
class PausedRun {
 public:
  explicit PausedRun(PauseHooks& hooks);
  ~PausedRun();
  PausedRun(const PausedRun&) = delete;
  PausedRun& operator=(const PausedRun&) = delete;

  PauseHooks& hooks() { return hooks_; }
  Recipe& recipe() { return hooks_.recipe(); }
  Session& session() { return hooks_.session(); }
  // Returns the current pause. Throws Error, with the fix, if the recipe is not paused.
  const LoopPause& pause();
  // Begins the loop if it has not begun: its report, plan and weights.
  void begin_loop();
  FrameNames names() { return recipe_names(recipe()); }

  // Runs the recipe's next body, or continues the one that waits at a failed call, and returns its
  // metrics. Before that, copies weights and optimizer to the host for again(), if there is room.
  // Throws the recipe's error: after one in a step or an evaluation the recipe waits there; any
  // other error has ended it.
  MetricTable step();
  // Restores weights, optimizer, run.state and metrics to before the last body and runs that body
  // again, on the same rows with the same random numbers. `first` gets the metrics of the first
  // time. Throws Error if no body ran here.
  MetricTable again(MetricTable* first = nullptr);
  // Runs n bodies, or as many as are left, and shows progress. Returns what the last one logged.
  MetricTable go_on(int64_t n);
  // Returns true if Ctrl-C ended the last verb before all of its bodies had run.
  bool stopped() const { return stopped_; }
  // Returns true if the recipe has ended, or waits after its last line.
  bool done() { return recipe().done() || recipe().at_end(); }

  // Reads the recipe's file and modules again and restarts it. If its configuration is the same, it
  // pauses at the same step with weights, optimizer and run.state as they are. Returns a sentence
  // on what it did. Previews only. Throws, with nothing changed, if the text or the configuration
  // is rejected. An error of the recipe before its loop is thrown too; the next reload then
  // continues from the same step.
  std::string reload();

  // Runs to the recipe's end, or until it waits at a failed call, and shows progress.
  void finish();

  // Returns the current batch: that of the last body that ran here, with the fields assigned to it,
  // or that of the next body if none ran. `source` counts the data sets of the loop from 0.
  std::shared_ptr<Batch> batch(size_t source = 0);
  int64_t batch_step();  // the step of batch()

  // Returns the objective of the latest adamw:step of the paused loop, the first if it had several;
  // null before the first step. `name` gets the variable that held it in the recipe, or "".
  std::shared_ptr<LuaRef> objective(std::string* name);

  // Appends what the prompt did to the run's log. A log that cannot be written is reported once.
  void note(const std::string& text);

 private:
  // Carried over by a reload.
  struct Carried {
    StateCopy objects;
    Json state;  // run.state
    Json config;
    int64_t step = 0;
  };

  std::string go_on_from(const Carried& carried);
  MetricTable run_bodies(int64_t n, bool shows_progress);
  bool go_to(int64_t step);
  void copy_for_again();
  MetricTable logged();
  void name_objective();
  SavedObjects changed_objects();

  PauseHooks& hooks_;

  StateCopy copy_;                   // for again(): the state before the last body
  SavedObjects copied_objects_;      // those in copy_
  int64_t copied_step_ = -1;         // the body that copy_ was taken before
  int64_t trained_step_ = -1;        // the last body that ran here
  std::shared_ptr<Batch> upcoming_;  // made here, of the next body
  bool stopped_ = false;             // a signal ended the last run before all of its bodies
  bool room_reported_ = false;
  bool log_failure_reported_ = false;
  int64_t skipped_before_ = 0;
  std::shared_ptr<LuaRef> named_objective_;  // the one that objective_name_ names
  std::string objective_name_;
  std::optional<Carried> carried_;  // until a reload has restored it
};

}  // namespace xrun
