#pragma once
// Pauses a recipe: between two bodies, and at a step or evaluation that failed or was interrupted.

#include <cstdint>
#include <functional>
#include <lua.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lua/bind/run_hooks.h"
#include "lua/bind/session.h"
#include "lua/prompt/frame_names.h"

namespace xrun {

class Batch;
class RunLoop;

// A pause of a recipe in its loop: after a body has ended and before the next one begins, or at the
// end of the loop. In a preview the first pause is before the loop begins (StepLoop::begun), so
// that no weights are loaded.
struct LoopPause {
  std::shared_ptr<StepLoop> loop;
  std::shared_ptr<RunLoop> run;
  int64_t step = 0;  // bodies of the run done: the `step` of the next body
  // Set if the recipe waits inside a body, or after the loop, at a call that failed or was
  // interrupted; resuming makes the call again.
  std::shared_ptr<const ErrorReport> failure = nullptr;

  bool in_body() const;           // waits at a call inside a body
  std::string wait_text() const;  // "where a call failed, at dpo.lua:17"
};

// The condition of the next pause.
struct PausePlan {
  bool at_once = false;      // at the next point where a recipe can pause
  int64_t before_step = -1;  // before the body of this step of the run; -1: none
  int64_t bodies = -1;       // once this many bodies have ended; -1: none
};

// Returns the names of the recipe's frame that has the loop, paused or running; after an error, the
// names that its main chunk had defined.
FrameNames recipe_names(Recipe& recipe);

// Attached to a recipe from construction to destruction; the recipe outlives it.
class PauseHooks : public RunHooks {
 public:
  explicit PauseHooks(Recipe& recipe);
  ~PauseHooks() override;
  PauseHooks(const PauseHooks&) = delete;
  PauseHooks& operator=(const PauseHooks&) = delete;

  Recipe& recipe() const { return recipe_; }
  Session& session() const { return session_of(recipe_.state()); }
  // The pause; null while the recipe runs, when it is done, or if it never reached a loop.
  const LoopPause* pause() const { return pause_.get(); }
  PausePlan plan;

  // Call Recipe::resume and Recipe::restart. Both end the pause; a restart forgets the last step
  // too.
  bool resume();
  void restart(const std::string& text);
  // Returns true for a preview, false for a real run.
  bool previews() const;

  // While a prompt is open, failed and interrupted calls wait, and the latest step and batch
  // are remembered.
  void attach_prompt();
  void detach_prompt();
  // The arguments of the latest adamw:step of the recipe.
  struct LastStep {
    std::vector<std::shared_ptr<LuaRef>> objectives;
    int64_t step = -1;  // of its batch
    std::shared_ptr<AdamW> optimizer;
  };
  const LastStep& last_step() const { return last_step_; }
  // Returns the previous body's batch of one of the loop's sets; null if it was not remembered.
  std::shared_ptr<Batch> trained(size_t source) const;
  void forget_trained() { trained_.clear(); }

  // Called with the terms of each step on stand-ins (SessionModels::stand_in).
  std::function<void(const std::vector<StepTerm>&)> on_dry_step;

  bool between_bodies(lua_State* L, const std::shared_ptr<StepLoop>& loop) override;
  std::optional<Metrics> before_step(lua_State* L, const std::vector<StepTerm>& terms) override;
  bool on_failure(lua_State* L, std::shared_ptr<const ErrorReport> failure,
                  bool ends_recipe) override;

 private:
  bool is_due(bool ended_body, bool upcoming, int64_t step);
  bool take_pause(lua_State* L, const std::shared_ptr<StepLoop>& loop, bool ended_body);
  bool can_wait(lua_State* L) const;
  void wait(std::shared_ptr<const ErrorReport> failure);
  Suspension may_suspend(lua_State* L, int signal_number) const;

  Recipe& recipe_;
  std::shared_ptr<const LoopPause> pause_;
  size_t entered_ = 0;  // functions that C++ had entered when the recipe was resumed
  bool prompt_open_ = false;
  LastStep last_step_;
  std::vector<std::shared_ptr<Batch>> trained_;
};

// Runs a recipe as run_session does, and opens a prompt at each pause: before the body of step
// `repl_at`, and after each body during which SIGUSR1 came.
int run_with_prompt(const RecipeOptions& options, std::optional<int64_t> repl_at,
                    const std::function<void(PauseHooks&)>& open);

}  // namespace xrun
