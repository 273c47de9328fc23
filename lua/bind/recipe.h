#pragma once
// A recipe from its file to its end: state, modules, config, coroutine.

#include <c10/core/Device.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "lua/state/lua_state.h"

namespace xrun {

// How far a recipe runs: to its end; to its xrun.run, with its data cached; or to its first loop,
// where it pauses (look.h), in a folder of its own that goes with it.
enum class RecipePurpose { kTrain, kCache, kLook };

struct LoopPause;  // loop_pause.h

// What the command line says; see design of commands.
// What a prompt without a recipe has in the recipe's place.
inline constexpr const char* kNoRecipe = "(prompt)";

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
  std::optional<int64_t> repl_at;  // --repl-at: pause before the body of this step
};

// A Lua file that a recipe loaded.
struct LoadedModule {
  std::string name;  // as required
  std::string path;  // the file; "xrun" for built-in ones
  std::string hash;  // of its bytes
};

// What bindings may ask about the recipe that runs in their state.
struct RecipeContext {
  RecipeOptions options;
  RecipeText text;
  Config config;
  std::vector<LoadedModule> modules;
  lua_State* thread = nullptr;             // the recipe's coroutine
  std::shared_ptr<const LoopPause> pause;  // where it is paused; null while it runs
  bool at_end = false;                     // suspended behind its last line
  size_t entered = 0;                      // functions that C++ had entered when the recipe went on
};

// The context of a state. Throws Error if no recipe runs in it.
RecipeContext& recipe_context(lua_State* L);

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
  // caller begins the session anew.
  void restart(const std::string& text);

  // Runs on until the recipe ends (false) or yields (true): pause() tells where. Throws LuaError,
  // UsageError (a LuaError that is bad usage), Interrupted.
  bool resume();
  bool done() const { return done_; }  // it has ended, by itself or by an error
  // What it ended by, if that was an error; null otherwise.
  const std::exception_ptr& failure() const { return failure_; }
  // One that is looked at is suspended behind its last line, where its names can still be read.
  bool at_end();
  // Where the recipe is paused; null if it runs, is done, or yields for another reason.
  const LoopPause* pause();

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

// Seeds what a recipe draws itself, ATen's generator and math.random, from (seed, moment, part).
// Moment 0 is the recipe's first line.
void seed_recipe(LuaState& state, uint64_t seed, int64_t moment, int64_t part);
// math.random alone.
void seed_lua_random(LuaState& state, uint64_t seed, int64_t moment, int64_t part);

}  // namespace xrun
