#pragma once
// The run behind a recipe's loop: reports, progress, phases and evaluation around core's Run.

#include <functional>
#include <lua.hpp>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/console/terminal/progress.h"
#include "core/run/failed_batch.h"
#include "core/run/run.h"
#include "core/train/batch.h"
#include "core/train/policy.h"
#include "lua/bind/data_config.h"
#include "lua/bind/data_handle.h"
#include "lua/bind/memory_report.h"
#include "lua/bind/metrics.h"
#include "lua/bind/session.h"
#include "lua/state/lua_state.h"

namespace xrun {

// One set that a loop draws from: the plan of its steps, and its batch in the recipe's hands.
struct StepSource {
  std::shared_ptr<DataHandle> data;
  StepPlan plan;
  std::shared_ptr<Batch> batch = nullptr;
};

// One `run:steps` loop over one or more sets. The first set determines the number of steps; the
// others repeat.
struct StepLoop {
  std::vector<StepSource> sources;
  int64_t steps = 0;
  int64_t max_tokens = 0;
  FoldSettings fold = {};
  int64_t phase = 0;
  int64_t first_step = 0;  // bodies of the run before its first one
  int64_t batch_step = 0;  // of the batch in hand, counted in this loop
  bool begun = false;
  bool ended = false;           // early: without its bodies, or without those left
  lua_State* thread = nullptr;  // in which its `for` runs
};

struct BodyRollouts;

class RunLoop {
 public:
  RunLoop(Session& session, std::string recipe, int64_t seed, std::unique_ptr<Run> run,
          std::vector<std::shared_ptr<Policy>> policies);

  Run& run() const { return *run_; }
  const std::string& recipe() const { return recipe_; }  // the file, as the user gave it
  uint64_t seed() const { return seed_; }
  Session& session() { return session_; }
  const std::vector<std::shared_ptr<Policy>>& policies() const { return policies_; }
  c10::Device device() const;  // of the first policy; the CPU without one

  // Plans the memory of a loop. Throws Error as check_memory does. Loads no weights.
  MemoryReport plan_of(const StepLoop& loop) const;

  // Seeds ATen's generator and math.random for the recipe's draws from here on. Streams of a step:
  // 0 its body, 1 the code after the loop, 2 and up its evaluations.
  void seed_random(lua_State* L, int64_t stream) const;
  void seed_lua(lua_State* L, int64_t stream) const;  // math.random alone
  // Counts the evaluations of the current step from 0.
  int64_t next_evaluation();
  void forget_evaluation() { --evaluations_; }  // the last one failed and will be repeated
  // Compares an input of the run with its state when the run began.
  void check(const SessionInputs::Input& input);
  // Saves the batch of a non-finite loss; throws the error with the saved file.
  [[noreturn]] void throw_with_batch(const NonFiniteLoss& error,
                                     std::span<const PackedBatch* const> packs,
                                     const RowName& name) const;

  // Checks that every row fits, prints the report before step 0 and starts the phase.
  void begin(StepLoop& loop, const Json& state);
  // Ends the previous body and returns true, or false if there is none. Begins the loop if it has
  // not begun.
  bool end_body(StepLoop& loop, const Json& state);
  // Ends the previous body and returns the next one, with a batch of each set; nothing at the end
  // of the loop.
  std::optional<LoopBody> next(StepLoop& loop, const Json& state);
  // The body that next() would return, also for a loop that has not begun; nothing at its end.
  std::optional<LoopBody> upcoming(const StepLoop& loop) const;
  // Ends a loop between two bodies for good; the remaining bodies do not run.
  void end_early(StepLoop& loop);
  // Returns the packs of a source that step `step` of the run would train: a pure function of the
  // plan. Loads no weights. Throws Error for a step that the loop does not have, and for a pair or
  // sequence longer than max_tokens.
  std::vector<PackedBatch> packs(const StepLoop& loop, int64_t step, size_t source = 0) const;
  // The same as the batch that the body of the step gets.
  std::shared_ptr<Batch> make_batch(const StepLoop& loop, int64_t step, size_t source = 0) const;
  // Undoes the last body, which next() opens again: position, metrics, run.state. The caller
  // restores the saved objects (Run::take_back).
  void take_back();
  // The loop whose body is open; null outside bodies.
  const StepLoop* open_loop() const { return run_->in_body() ? open_ : nullptr; }
  // Ends the open body and its loop for good.
  void leave_loop(const Json& state);
  // The batch sizes of the latest loop; nothing before one.
  const std::optional<BatchSizes>& sizes() const { return sizes_; }
  void set_sizes(const BatchSizes& sizes) { sizes_ = sizes; }
  // Returns the settings under which this run folds: as a resumed run did, and not by "auto" where
  // an adapter has dropout, which is reported.
  FoldSettings fold_of_run(FoldSettings fold);
  // Writes ledger.json again and prints the new part if sets were opened since the last time.
  void write_ledger();
  void log(const Metrics& metrics);
  // Appends to log.txt. A line that cannot be written is lost: a full disk ends the run where
  // something that counts is written.
  void log_line(const std::string& text) noexcept;
  // Writes the memory held so far into run.json, for a run that ends by an error. Never throws.
  void record_memory_after_error() noexcept;
  // Marks the open body's update as done and counts its tokens.
  void note_update(int64_t tokens);
  void finish(const Json& state);
  void end_progress();
  // run.state of Lua as JSON; set by the binding. Throws Error that names a value that cannot be
  // saved.
  std::function<Json()> read_state = [] { return Json(); };
  std::function<void(const Json&)> write_state;    // the inverse; set by the binding
  std::shared_ptr<LuaRef> state_ref;               // the table behind it
  std::shared_ptr<StepLoop> current_loop;          // the loop that a `for` asked last
  std::shared_ptr<BodyRollouts> rollouts;          // of the open body; null: it sampled none
  bool quiet = false;                              // no progress of single steps
  std::vector<std::shared_ptr<AdamW>> optimizers;  // counted in the memory plan
  // Leaves the time since the last body out of the time left: a prompt was open.
  void skip_wait() {
    if (progress_) progress_->skip_wait();
  }

 private:
  void report(const StepLoop& loop);
  void plan_memory(const StepLoop& loop);
  void check_disk(const StepLoop& loop);
  void report_resume(const StepLoop& loop);
  void measure_peak();
  void check_folding(const StepLoop& loop);
  void load_weights();
  void measure_memory();
  void report_body_copy();
  void log_rollouts();
  Metrics mean_of_updates(const Metrics& metrics);
  void show_progress(const StepLoop& loop);
  void show_evaluation(const Metrics& metrics, const std::string& loss);

  Session& session_;
  std::string recipe_;
  uint64_t seed_;
  std::unique_ptr<Run> run_;
  std::vector<std::shared_ptr<Policy>> policies_;
  std::optional<RunProgress> progress_;
  int64_t phases_ = 0;
  std::optional<BatchSizes> sizes_;
  Ledger earlier_ledger_;           // of a run that is resumed
  size_t ledger_sources_ = 0;       // of this process that ledger.json has
  const StepLoop* open_ = nullptr;  // the loop of the last body
  int64_t body_tokens_ = 0;
  // Metrics of the updates that this body logged: sum and count by name.
  std::map<std::string, std::pair<double, int64_t>> update_sums_;
  double peak_flops_ = 0;  // of this machine, a second; 0: not measured
  bool copy_reported_ = false;
  bool equal_rewards_reported_ = false;
  int64_t evaluated_step_ = -1, evaluations_ = 0;
  Metrics last_train_;
  std::string fold_text_;                         // of the opening report; "": nothing is folded
  std::optional<MemoryReport> memory_, fullest_;  // of the latest loop, and of the fullest one
};

// The plan of a loop's phase: its steps, and of each of its sets the fingerprint and how the loop
// draws from it.
PhasePlan phase_plan_of(const StepLoop& loop);

// Returns the number of passes of a loop over its first set.
double epochs_of(const StepLoop& loop);

// Ends a loop that was left by `break`. Lua does not report that; the sign is that no `for` walks
// over it any more. Every method of a run that depends on the step calls it first.
void leave_broken_loop(RunLoop& run, lua_State* L);

// run:steps, what `for` walks over: pushes the iterator and its StepLoop.
int run_steps(RunLoop& run, lua_State* L);
// run:evaluate and run:sample push Metrics; a resume that replays saved steps pushes the saved
// ones.
int run_evaluate(RunLoop& run, lua_State* L);
int run_sample(RunLoop& run, lua_State* L);

}  // namespace xrun
