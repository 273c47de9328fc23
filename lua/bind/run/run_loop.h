#pragma once
// The run that a recipe's loops drive: phases, bodies, evaluations and the end, around core's Run.

#include <cstdint>
#include <functional>
#include <lua.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/run/first_steps.h"
#include "core/run/run.h"
#include "core/train/batches/batch.h"
#include "lua/bind/data/data_config.h"
#include "lua/bind/metrics.h"
#include "lua/bind/run/run_memory.h"
#include "lua/bind/run/run_report.h"
#include "lua/bind/run/step_loop.h"
#include "lua/bind/session.h"
#include "lua/state/lua_state.h"

namespace xrun {

// Held by its Session and by the Lua object Run. Only the recipe's thread uses it.
class RunLoop {
 public:
  // `models` has no references: a recipe takes them later (SessionModels).
  RunLoop(Session& session, std::string recipe, int64_t seed, std::unique_ptr<Run> run,
          RunModels models);

  Run& run() const { return *run_; }
  Session& session() { return session_; }
  RunReport& report() { return report_; }
  RunMemory& memory() { return memory_; }
  const std::string& recipe() const { return recipe_; }  // the file, as the user gave it
  uint64_t seed() const { return seed_; }
  RunModels models() const;  // with all that the recipe has opened
  const std::vector<std::shared_ptr<Policy>>& policies() const { return models_.policies; }
  c10::Device device() const;  // of the first policy; the CPU without one
  // The batch sizes of the latest loop; nothing before one.
  const std::optional<BatchSizes>& sizes() const { return sizes_; }
  void set_sizes(const BatchSizes& sizes) { sizes_ = sizes; }

  // Ends the previous body; returns false if there is none. First begins a loop that has not begun:
  // checks that every row fits, plans, reports, starts the phase.
  bool end_body(StepLoop& loop, const Json& state);
  // Ends the previous body and returns the next one, with a batch of each set; nothing at the end
  // of the loop.
  std::optional<LoopBody> next(StepLoop& loop, const Json& state);
  // The body that next() would return, also for a loop that has not begun; nothing at its end.
  std::optional<LoopBody> upcoming(const StepLoop& loop) const;
  // Undoes the last body, which next() opens again: position, metrics, run.state. The caller
  // restores the saved objects (Run::take_back).
  void take_back();
  // The loop whose body is open; null outside bodies.
  const StepLoop* open_loop() const { return run_->in_body() ? open_ : nullptr; }
  // Ends the open body and its loop for good.
  void leave_loop(const Json& state);
  // Ends a loop between two bodies for good; the remaining bodies do not run.
  void end_early(StepLoop& loop);
  // Returns true if a resume passes over all bodies of a loop that has not begun.
  bool is_replayed(const StepLoop& loop) const;
  void log(const Metrics& metrics);
  // Marks the open body's update as done and counts its tokens.
  void note_update(int64_t tokens);
  // Writes the ledger of sets that were opened after the first loop began.
  void write_ledger();
  // Saves the batch of a non-finite loss; throws the error with the saved file.
  [[noreturn]] void throw_with_batch(const NonFiniteLoss& error,
                                     std::span<const PackedBatch* const> packs,
                                     const RowName& name) const;
  void finish(const Json& state);
  void say(const std::string& line);  // on the console and in log.txt; "" is ignored

  // Seeds ATen's generator and math.random for the recipe's draws from here on. Streams of a step:
  // 0 its body, 1 the code after the loop, 2 and up its evaluations.
  void seed_random(lua_State* L, int64_t stream) const;
  void seed_lua(lua_State* L, int64_t stream) const;  // math.random alone
  // Seeds both for the code after the next update of the current step.
  void seed_after_update(lua_State* L);
  // Counts the evaluations of the current step from 0.
  int64_t next_evaluation();
  void forget_evaluation() { --evaluations_; }  // the last one failed and will be repeated

  // run.state of Lua as JSON; set by tie_state. Throws Error that names a value that cannot be
  // saved.
  std::function<Json()> read_state = [] { return Json(); };
  std::function<void(const Json&)> write_state;  // the inverse; set by tie_state
  std::shared_ptr<LuaRef> state_ref;             // the table that holds it
  std::shared_ptr<StepLoop> current_loop;        // the loop that a `for` asked last
  std::optional<FirstSteps> first_steps;         // that a bundle recorded

 private:
  void begin(StepLoop& loop, const Json& state);
  bool trains(const StepLoop& loop) const;
  void plan_memory(const StepLoop& loop);
  void compare_weights();  // throws if the ranks' weights differ
  void load_weights();
  void check_disk(const StepLoop& loop);
  Metrics mean_of_updates(const Metrics& metrics);
  void warn_of_damage();  // reports damaged sidecars, each once
  void flush_sidecars();

  Session& session_;
  std::string recipe_;
  uint64_t seed_;
  std::unique_ptr<Run> run_;
  RunModels models_;
  RunMemory memory_;
  RunReport report_;
  int64_t phases_ = 0;
  std::optional<BatchSizes> sizes_;
  const StepLoop* open_ = nullptr;  // the loop of the last body
  // Metrics of the updates that this body logged: sum and count by name.
  std::map<std::string, std::pair<double, int64_t>> update_sums_;
  int64_t evaluated_step_ = -1, evaluations_ = 0;
  int64_t body_updates_ = 0;
  std::set<std::string> damage_said_;
};

// Returns the settings under which a run folds, and writes them into run.json. A resumed run keeps
// its min_ratio. "auto" becomes "never", with a notice, for an adapter with dropout and for a model
// with windows on a GPU. (run_fold.cpp)
FoldSettings fold_of_run(RunLoop& run, FoldSettings fold);
// Counts the tokens that folding saves in the first step of a loop, compares its hidden states with
// those of separate sequences, and writes both into run.json. Returns the line for the report
// before step 0; "": nothing is folded.
std::string check_folding(RunLoop& run, const StepLoop& loop);
// Does the same for rollouts, which are sampled in the bodies of a loop: at its first update, with
// the line on the console. Under batch.fold_check also compares the first update of every
// fold_check-th body, and logs the deviation.
void check_update_folding(RunLoop& run, const std::vector<StepTerm>& terms, const AdamW& adamw);

// Ends a loop that was left by `break`. Lua does not report a `break`; the sign is that no `for`
// walks over the loop any more. Every method of a run that depends on the step calls this first.
// (run_steps.cpp)
void leave_broken_loop(RunLoop& run, lua_State* L);
// run:steps, what `for` walks over: pushes the iterator and its StepLoop.
int run_steps(RunLoop& run, lua_State* L);

// run:evaluate, run:choices (run_evaluate.cpp) and run:sample (run_sample.cpp) push Metrics; a
// resume that replays saved steps pushes the saved ones.
int run_evaluate(RunLoop& run, lua_State* L);
int run_choices(RunLoop& run, lua_State* L);
int run_sample(RunLoop& run, lua_State* L);
// Pushes the values of `measure`, which runs unless a replay knows them. math.random continues with
// the same numbers either way.
int push_measured(RunLoop& loop, lua_State* L, const std::string& what,
                  const std::function<Metrics(int64_t number)>& measure);

}  // namespace xrun
