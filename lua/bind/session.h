#pragma once
// What the bindings of one recipe share: how it was called, where it prints, the run it drives.

#include "core/base/json.h"
#include "core/console/console.h"

#include <lua.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace xrun {

class RunLoop;

// The command line of a recipe, as far as a run is concerned.
struct SessionOptions {
  std::filesystem::path recipe;   // the file, as the user spelt it
  std::string recipe_text;
  std::filesystem::path run_dir;  // --run; empty: runs/<recipe>-<short hash>
  bool resume = false;
  bool force = false;
  int64_t steps_limit = -1;       // --steps; -1: no limit
  Json machine;                   // threads, device: said on resume when they change
};

// Belongs to a LuaState (LuaState::service); the recipe command fills options and console before
// the recipe runs, and ends the run afterwards.
struct Session {
  SessionOptions options;
  std::shared_ptr<Console> console;       // never null while a recipe runs
  std::shared_ptr<RunLoop> run;           // the latest xrun.run; null before
  bool already_finished = false;          // --resume found a finished run: exit status 0
  std::vector<std::string> notices;       // to be said with the report before step 0
  Json ledger = Json::object();           // of each data set opened, by name
};

// The session of a state.
Session& session_of(lua_State* L);

// The value of an engine key or of the recipe's own, resolved; null if it has none. The path has
// dots: "optim.lr".
const Json* config_value(lua_State* L, const std::string& path);

// What a recipe that returned owes its run: the last checkpoint, the summary. Prints them.
void finish_session(lua_State* L);

// After an error or an interruption: saves what can be saved and says where, on the console.
void save_session_after_error(lua_State* L);

}  // namespace xrun
