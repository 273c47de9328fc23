#pragma once
// A recipe run up to its loop and paused there, for inspect, check and the prompt.

#include <memory>
#include <string>

#include "lua/bind/data/data_handle.h"
#include "lua/prompt/pause_hooks.h"
#include "lua/state/interruption.h"

namespace xrun {

class Tokenizer;

// A recipe under control. None of the user's files is written: the run is in a temporary folder,
// which is removed with the session. Weights load at the first forward. Not thread-safe.
class Preview {
 public:
  ~Preview();
  Preview(const Preview&) = delete;
  Preview& operator=(const Preview&) = delete;

  Recipe& recipe() { return *recipe_; }
  PauseHooks& hooks() { return *hooks_; }
  LuaState& state() { return recipe_->state(); }
  Session& session();

  // The pause; null if the recipe failed, is done, or never reaches a loop.
  const LoopPause* pause() const { return hooks_->pause(); }
  // The error that ended the recipe, or null. The state stays usable.
  const std::shared_ptr<const ErrorReport>& error() const { return error_; }
  // Returns false if its text or configuration is wrong; recipe() is then empty.
  bool resolved() const { return resolved_; }
  // Returns the reason that there is no loop, with file and line; "" if the recipe is paused at
  // one.
  std::string no_loop_text();

  // Resumes the recipe. Returns true if it pauses again, false if it is done or failed (error()).
  bool resume();
  // Skips the bodies of the loop and runs to the next loop: a later phase with its data, but
  // without the weights that it would begin with. Returns false if there is none.
  bool next_loop();

  // Returns the names at the pause or at the recipe's end; after an error, those that its main
  // chunk had defined.
  FrameNames names();

 private:
  friend std::unique_ptr<Preview> open_preview(RecipeOptions, std::shared_ptr<Console>, double);
  Preview() = default;
  void start(RecipeOptions options, std::shared_ptr<Console> console, double own_time_s);

  std::unique_ptr<Recipe> recipe_;
  std::unique_ptr<PauseHooks> hooks_;
  std::shared_ptr<const ErrorReport> error_;
  bool resolved_ = true;
  std::unique_ptr<LuaDeadline> limit_;  // last: it leaves the state before that closes
};

// Runs a recipe up to its first loop. An empty options.recipe opens a bare state for a prompt.
// Errors of the recipe, its syntax and its configuration do not throw: error() has them, with
// `usage` set for bad usage. Makes the state the one that signals stop. Throws Error if the file
// cannot be read, Interrupted.
//   own_time_s  seconds of Lua code after which the recipe fails with its line; 0: no limit
std::unique_ptr<Preview> open_preview(RecipeOptions options, std::shared_ptr<Console> console,
                                      double own_time_s = 0);

}  // namespace xrun
