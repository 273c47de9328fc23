#pragma once
// A paused recipe in the hands of a prompt: one body at a time, back, and again.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/run/state_copy.h"
#include "lua/bind/frame_names.h"
#include "lua/bind/loop_pause.h"
#include "lua/bind/metrics.h"
#include "lua/bind/recipe.h"
#include "lua/bind/session.h"

namespace xrun {

class Batch;

// The names of the recipe's frame, while it runs too: what was typed at a prompt may be called by a
// body. Those kept of a recipe that an error ended.
FrameNames recipe_names(Recipe& recipe);

// One recipe, looked at (look.h) or running (run_session); it outlives the stepper. While a stepper
// lives, steps and evaluations that fail or are interrupted pause the recipe where they stand. What
// it does and what of it changes the run is written into the run's log. Not thread-safe.
class Stepper {
 public:
  explicit Stepper(Recipe& recipe);
  ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  Recipe& recipe() { return recipe_; }
  Session& session() { return session_of(recipe_.state()); }
  // Where the recipe is paused. Throws Error, with the way out, if it is not.
  const LoopPause& pause();
  // Begins the loop where it has not begun: its report, plan and weights.
  void begin_loop();
  FrameNames names();  // recipe_names

  // Runs the recipe's own next body, or the one that waits at a failed call; returns what it
  // logged. Before it, a copy of weights and optimizer is taken on the host for again(), where
  // there is room. Throws what the recipe threw: where the error came of a step or an evaluation
  // the recipe waits there, any other one has ended it.
  MetricTable step();
  // Puts weights, optimizer, run.state and metrics back to before the last body and runs that body
  // again, on the same rows with the same random numbers. `first` gets what it logged before.
  MetricTable again(MetricTable* first = nullptr);
  // Runs n bodies, or as many as there are; progress is shown. Returns what the last one logged.
  MetricTable go_on(int64_t n);
  bool stopped() const { return stopped_; }  // the last verb, by Ctrl-C between two bodies
  // Whether the recipe is only looked at, not a run of the user's.
  bool looks() { return recipe_.context().options.purpose == RecipePurpose::kLook; }
  // Whether the recipe has ended.
  bool done() { return recipe_.done() || recipe_.at_end(); }

  // Reads the recipe's file and modules again and begins it again, with weights, optimizer and
  // run.state as they are and paused at the same step if its configuration is the same; says what
  // it did. Only of a recipe that is looked at. Throws, with nothing changed, what its text or
  // configuration is refused for; what it threw on the way to its loop, and then the next reload
  // goes on from there.
  std::string reload();

  // Runs on to the recipe's end, or until it waits at a failed call; progress is shown.
  void finish();

  // The batch in hand: of the last body that ran here, with the fields that it assigned, else of
  // the next one. `source` counts the sets of the loop from 0.
  std::shared_ptr<Batch> batch(size_t source = 0);
  int64_t batch_step();  // its step

  // The objective that the latest adamw:step of the paused loop was given, of several the first;
  // null before one. `name` gets the name that the recipe's frame had for it then, or "".
  std::shared_ptr<LuaRef> objective(std::string* name);

  // Whether the run has been touched, here or at an earlier visit.
  bool touched();
  // Notes what the prompt did in the run's log; `touches`: later steps may differ from those of a
  // run that nobody looked into, which run.json then says ("touched").
  // A log that cannot be written is said once.
  void note(const std::string& text, bool touches);

 private:
  // What a reload takes over.
  struct Carried {
    StateCopy objects;
    Json state;  // run.state
    Json config;
    int64_t step = 0;
  };

  std::string go_on_from(const Carried& carried);
  MetricTable run_bodies(int64_t n);
  bool go_to(int64_t step);
  void keep_for_again();
  MetricTable logged();
  void name_objective();
  void write_note(const std::string& text, bool touches);

  Recipe& recipe_;
  SavedObjects changed_objects();

  StateCopy kept_;
  SavedObjects kept_objects_;        // those that kept_ is a copy of
  int64_t kept_step_ = -1;           // the body that kept_ stands before
  int64_t trained_step_ = -1;        // of the last body that ran here
  std::shared_ptr<Batch> upcoming_;  // made here, of the next body
  bool stopped_ = false;             // the last run ended by a signal, before its bodies had
  bool room_said_ = false;
  bool log_failure_said_ = false;
  int64_t skipped_before_ = 0;
  std::shared_ptr<LuaRef> named_objective_;  // the one that objective_name_ is of
  std::string objective_name_;
  std::optional<Carried> carried_;  // until a reload has used it
};

}  // namespace xrun
