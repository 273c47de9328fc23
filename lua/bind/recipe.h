#pragma once
// A recipe as a coroutine in a separate Lua state, with its text, config and modules.

#include <c10/core/Device.h>

#include <cstdint>
#include <exception>
#include <lua.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/share/opened_bundle.h"
#include "lua/state/lua_state.h"

namespace xrun {

class FetchingRanks;
class Ranks;
class RunHooks;
struct DistOptions;

// kTrain: the recipe runs to its end. kCache: it runs to xrun.run, which caches its data. kPreview:
// a prompt or command controls it, and its run is in a temporary folder (lua/prompt/preview.h).
enum class RecipePurpose { kTrain, kCache, kPreview };

// The recipe's name in a prompt without a recipe.
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
  bool device_given = false;  // by --device; if not, a resume takes the run's
  Ranks* ranks = nullptr;     // the processes of the run; null: this one alone
  int threads = 0;            // 0: LibTorch's choice; on a resume the run's
  bool jit = false;
  RecipePurpose purpose = RecipePurpose::kTrain;
  bool json = false;                      // --json, for a command that prints
  bool profile = false;                   // --profile: the run gets a profile.json
  std::vector<std::string> notices = {};  // of resumed_options and bundles, printed first
  // The bundle that holds the recipe, which others may have written; null if there is none. With a
  // bundle `recipe` is the name in messages, and `sets` begin with the bundle's.
  std::shared_ptr<const OpenedBundle> bundle = {};
};

// A Lua file that a recipe loaded.
struct LoadedModule {
  std::string name;  // as required
  std::string path;  // the file
  std::string hash;  // of its bytes
};

// The recipe that runs in a state, for bindings.
struct RecipeContext {
  RecipeOptions options;
  FetchingRanks* fetching = nullptr;  // the same as options.ranks; null: one process
  ScannedRecipe text;
  Config config;
  std::vector<LoadedModule> modules;
  lua_State* thread = nullptr;  // the recipe's coroutine
  RunHooks* hooks = nullptr;    // of a prompt, which keeps them alive; null: none
  bool ended_early = false;     // at xrun.run: the run is finished, or only caches were asked for
  bool at_end = false;          // a preview: suspended after its last line
};

// Returns how the ranks share models and optimizers: dist.level and the ranks of the options, which
// can fetch (null in one process).
DistOptions recipe_dist(lua_State* L);
// The bundle that holds the recipe; null if there is none or no recipe runs.
const OpenedBundle* bundle_of(lua_State* L);
// The hooks of the context; null if there are none or no recipe runs.
RunHooks* run_hooks(lua_State* L);
// Returns the path on disk of a file that the recipe names: a bundle's members are in the cache.
std::string local_path(lua_State* L, const std::string& path);
// Returns what to open for the name of a model, a data source, a template or a projection. Throws
// Error as check_model_name and check_read do.
std::string local_input(lua_State* L, InputKind kind, const std::string& name);

// The context of a state. Throws Error if no recipe runs in it.
RecipeContext& recipe_context(lua_State* L);

// Ends the recipe at the call of a binding, without an error; the binding returns this value.
// Throws Error in any coroutine but the recipe's own.
int end_recipe(lua_State* L);

// Adds bindings to a state; see modules.h.
using OpenModule = void (*)(LuaState&);

// A loaded recipe that has not run yet. Scanning the text and checking the config happen in the
// constructor, before anything else loads.
class Recipe {
 public:
  // Throws UsageError (config), Error (file), LuaError (syntax).
  Recipe(const RecipeOptions& options, const std::vector<OpenModule>& modules);
  // Takes source that was already read; options.recipe names it.
  Recipe(const RecipeOptions& options, const std::vector<OpenModule>& modules,
         const std::string& text);
  ~Recipe();

  // Begins again in the same state with another text: the next resume() runs its first line, and
  // modules are read again. Throws as the constructor does, with nothing changed. The caller clears
  // the session.
  void restart(const std::string& text);

  // Runs on until the recipe ends (false) or yields (true). Throws LuaError, UsageError (a LuaError
  // that is bad usage), Interrupted.
  bool resume();
  // Throws the Error for a coroutine.yield in the main chunk, which nothing waits for.
  [[noreturn]] void refuse_yield();
  bool done() const { return done_; }  // it has ended, by itself or by an error
  // The error that ended it, or null.
  const std::exception_ptr& failure() const { return failure_; }
  // Returns true if it ended at xrun.run (end_recipe).
  bool ended_early();
  // True for a preview that is suspended after its last line, where its names can still be read.
  bool at_end();

  LuaState& state() { return *state_; }
  lua_State* thread() const { return thread_; }  // the recipe's coroutine
  RecipeContext& context();

 private:
  // Moves the loaded text from the stack to a new coroutine.
  void start_thread();

  std::unique_ptr<FetchingRanks> ranks_;  // outlives the state, whose objects use it
  std::unique_ptr<LuaState> state_;
  LuaRef thread_ref_;
  lua_State* thread_ = nullptr;
  bool started_ = false, done_ = false;
  std::exception_ptr failure_;
};

// Sets LibTorch's threads (0: its default) and deterministic algorithms, without filling
// uninitialised memory. Every command that computes calls it.
void set_up_torch(int threads);

// The device that the command line names: the first visible one of its kind.
c10::Device recipe_device(const RecipeOptions& options);

// Returns a whole number of the resolved configuration ("save.every"), the field's default if the
// configuration lacks it, or 0 if there is no default.
int64_t config_whole(lua_State* L, const char* path);
// Returns a number of the resolved configuration ("save.minutes"), with the same defaults.
double config_number(lua_State* L, const char* path);

// Throws UsageError that names the first key of the table from xrun.config that the recipe has
// changed: config.json would lack its value.
void check_config_unchanged(lua_State* L);
// Accepts the changes that a prompt made to that table. Returns the keys that were not accepted
// before.
std::vector<std::string> keep_config_changes(lua_State* L);

}  // namespace xrun
