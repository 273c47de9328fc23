#pragma once
// The run behind a recipe's loop: reports, progress, phases and evaluation
// around core's Run.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/console/progress.h"
#include "core/run/run.h"
#include "core/train/batch.h"
#include "core/train/policy.h"
#include "lua/bind/lua_state.h"
#include "lua/bind/metrics.h"
#include "lua/bind/preference.h"
#include "lua/bind/session.h"

namespace xrun {

// One `run:steps` loop: the set, the plan of its steps, and the batch in the
// recipe's hands.
struct StepLoop {
  std::shared_ptr<PreferenceData> data;
  StepPlan plan;
  int64_t steps = 0;
  int64_t max_tokens = 0;
  int64_t phase = 0;
  int64_t batch_step = 0;  // of the batch in hand, counted in this loop
  bool begun = false;
  std::shared_ptr<Batch> batch;
};

class RunLoop {
 public:
  RunLoop(Session& session, std::string recipe, std::unique_ptr<Run> run,
          std::vector<std::shared_ptr<Policy>> policies);

  Run& run() const { return *run_; }
  Session& session() { return session_; }
  const std::vector<std::shared_ptr<Policy>>& policies() const { return policies_; }

  // Checks that every pair fits, prints the report before step 0 and starts the
  // phase.
  void begin(StepLoop& loop, const Json& state);
  // Ends the body before and gives the next one's batch; null where the loop
  // ends.
  std::optional<Body> next(StepLoop& loop, const Json& state);
  void log(const Metrics& metrics);
  // Marks the open body's update as done and counts its tokens.
  void note_update(int64_t tokens);
  void finish(const Json& state);
  void end_progress();
  // run.state as Lua holds it, as JSON; set by the binding.
  std::function<Json()> read_state = [] { return Json(); };
  std::shared_ptr<LuaRef> state_ref;  // the table behind it

 private:
  void report(const StepLoop& loop);
  void show_progress(int64_t done, int64_t total);

  Session& session_;
  std::string recipe_;  // the file, for the report
  std::unique_ptr<Run> run_;
  std::vector<std::shared_ptr<Policy>> policies_;
  std::optional<RunProgress> progress_;
  int64_t phases_ = 0;
  int64_t body_tokens_ = 0;
  Metrics last_train_;
};

}  // namespace xrun
