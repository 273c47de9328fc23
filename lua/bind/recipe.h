#pragma once
// A recipe from its file to its end: state, modules, config, coroutine.

#include <c10/core/Device.h>

#include <cstdint>
#include <exception>
#include <lua.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "lua/state/lua_state.h"

namespace xrun {

// A recipe runs to its end; to its xrun.run, with its data cached; or under the control of a prompt or
// command, with its run in a temporary folder (lua/prompt/preview.h).
enum class RecipePurpose { kTrain, kCache, kPreview };

inline constexpr uint64_t kMostRecipeBytes = uint64_t{16} << 20;

// The name of a recipe for a prompt without one.
inline constexpr const char* kNoRecipe = "(prompt)";

// The command line.
struct RecipeOptions {
  std::string recipe;             // the file, as given; "": none, a state for a prompt
  std::vector<std::string> sets;  // --set key=value
  std::string run_dir;            // --run; "": runs/<recipe>-<short hash>
  bool resume = false;
  bool force = false;
  std::optional<int64_t> steps;  // --steps: stop early
  std::string device = "cpu";
  int threads = 0;  // 0: LibTorch's choice
  bool jit = false;
  RecipePurpose purpose = RecipePurpose::kTrain;
  bool json = false;               // of a purpose that prints
  bool profile = false;            // --profile: the run gets a profile.json
  lua_CFunction on_error = nullptr;  // the recipe's message handler; null: message_handler
};

// A Lua file that a recipe loaded.
struct LoadedModule {
  std::string name;  // as required
  std::string path;  // the file; "xrun" for built-in ones
  std::string hash;  // of its bytes
};

// The recipe that runs in a state, for bindings.
struct RecipeContext {
  RecipeOptions options;
  RecipeText text;
  Config config;
  std::vector<LoadedModule> modules;
  lua_State* thread = nullptr;  // the recipe's coroutine
  bool at_end = false;         // suspended behind its last line
  bool nothing_left = false;   // ended at xrun.run: its run is finished, or only caches were wanted
};

// The context of a state. Throws Error if no recipe runs in it.
RecipeContext& recipe_context(lua_State* L);

// Ends the recipe at the call of a binding, without an error; the binding returns this value. Throws
// Error in another coroutine than the recipe's own.
int end_recipe(lua_State* L);

// Adds bindings to a state; see modules.h.
using OpenModule = void (*)(LuaState&);

// A loaded recipe that has not run yet. Scanning the text and checking the config happen in the
// constructor, before anything else loads.
class Recipe {
 public:
  // Throws UsageError (config), Error (file), LuaError (syntax).
  Recipe(const RecipeOptions& options, const std::vector<OpenModule>& modules);
  // The same of a text that is at hand; options.recipe names it.
  Recipe(const RecipeOptions& options, const std::vector<OpenModule>& modules,
         const std::string& text);
  ~Recipe();

  // Begins again, in the same state, with another text: the next resume() runs its first line, and
  // what it requires is read again. Throws as the constructor does, with nothing changed. The
  // caller clears the session.
  void restart(const std::string& text);

  // Runs on until the recipe ends (false) or yields (true). Throws LuaError, UsageError (a LuaError
  // that is bad usage), Interrupted.
  bool resume();
  bool done() const { return done_; }  // it has ended, by itself or by an error
  // The error that ended it, or null.
  const std::exception_ptr& failure() const { return failure_; }
  // Whether a preview is suspended behind its last line, where its names can still be read.
  bool at_end();
  // Whether it ended at xrun.run (end_recipe).
  bool nothing_left();

  LuaState& state() { return *state_; }
  lua_State* thread() const { return thread_; }  // the recipe's coroutine
  RecipeContext& context();

 private:
  // Takes the loaded text from the stack.
  void start_thread();

  std::unique_ptr<LuaState> state_;
  LuaRef thread_ref_;
  lua_State* thread_ = nullptr;
  bool started_ = false, done_ = false;
  std::exception_ptr failure_;
};

// Threads and determinism as every command that computes wants them: deterministic algorithms,
// without filling uninitialised memory. threads 0 leaves LibTorch's choice.
void set_up_torch(int threads);

// The device that the command line names, the first of its kind.
c10::Device recipe_device(const RecipeOptions& options);

// A whole number of the resolved configuration ("save.every"); the field's default where there is
// no configuration, 0 if the field has none.
int64_t config_whole(lua_State* L, const char* path);
// The same for a number ("save.minutes").
double config_number(lua_State* L, const char* path);

// Seeds what a recipe draws itself, ATen's generator and math.random, from (seed, moment, part).
// Moment 0 is the recipe's first line.
void seed_recipe(LuaState& state, uint64_t seed, int64_t moment, int64_t part);
// math.random alone.
void seed_lua_random(LuaState& state, uint64_t seed, int64_t moment, int64_t part);

}  // namespace xrun
