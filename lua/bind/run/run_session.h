#pragma once
// Runs a recipe from its file to its last checkpoint and summary.

#include <memory>
#include <optional>

#include "lua/bind/session.h"
#include "lua/state/line_profile.h"

namespace xrun {

// A recipe that its caller resumes until it is done and then ends by end(), or by fail() if
// anything throws meanwhile.
class RunSession {
 public:
  // Sets up torch and signals and loads the recipe. Throws as Recipe does. A command passes its
  // options through resumed_options first.
  explicit RunSession(const RecipeOptions& options);
  ~RunSession();
  RunSession(const RunSession&) = delete;
  RunSession& operator=(const RunSession&) = delete;

  Recipe& recipe() { return *recipe_; }
  // Ends the run of a recipe that is done. Returns the exit status 0.
  int end();
  // Called in a catch clause: saves what can be saved, reports where, and rethrows.
  [[noreturn]] void fail();

 private:
  std::unique_ptr<Recipe> recipe_;
  std::optional<LineProfile> profile_;
};

// Runs a recipe straight through. Returns the exit status 0; throws what the recipe threw, and
// Interrupted after saving.
int run_session(const RecipeOptions& options);

}  // namespace xrun
