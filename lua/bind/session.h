#pragma once
// What the bindings of one recipe share: where it prints, what it has opened, the run it drives.

#include <cstdio>
#include <filesystem>
#include <functional>
#include <lua.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/base/temporary_dir.h"
#include "core/console/terminal/console.h"
#include "core/data/rows/ledger.h"
#include "core/run/run_dir.h"
#include "lua/bind/recipe.h"

namespace xrun {

class AdamW;
class LogprobStandIn;
class Policy;
class Reference;
class RunLoop;

// Belongs to a LuaState (LuaState::service). run_session sets the console before the recipe runs
// and ends the run afterwards.
struct Session {
  std::shared_ptr<Console> console;          // never null while a recipe runs
  std::unique_ptr<TemporaryDir> scratch;     // of a recipe that is looked at: its run lies there
  std::unique_ptr<RunDir> run_dir;           // opened before any work, until xrun.run takes it
  std::shared_ptr<LogprobStandIn> stand_in;  // answers in place of models; null: they do
  bool prompt_in_charge = false;             // a prompt runs the recipe body by body
  std::function<void(const std::string& what)> note_touch;  // of what changes a run by hand
  // The objectives of the latest adamw:step of a recipe under a prompt, the step of its batch, and
  // its optimizer.
  std::vector<std::shared_ptr<LuaRef>> objectives;
  int64_t objectives_step = -1;
  std::shared_ptr<AdamW> optimizer;
  std::vector<std::weak_ptr<AdamW>> made_optimizers;  // all of the recipe, in xrun.run or not
  std::shared_ptr<RunLoop> run;                       // the latest xrun.run; null before
  int64_t largest_logits = 0;                         // said by policy:logits when it grows
  bool host_copy_said = false;                        // that a policy of a GPU decodes through one
  int64_t skipped_steps = 0;      // without an update; the first is said, the rest at the end
  bool already_finished = false;  // nothing is left to do: exit status 0
  std::vector<std::filesystem::path> cache_dirs;       // of the ledger's sources, one for one
  std::vector<std::string> notices;                    // to be said with the report before step 0
  Ledger ledger;                                       // of every data source opened, in order
  std::string ledger_text;                             // the same, to be said before step 0
  // Those that were opened, with the names that they are stood in for under.
  std::vector<std::pair<std::weak_ptr<Policy>, std::string>> policies;
  std::vector<std::shared_ptr<Reference>> references;  // synced by saves, checked at the end
  std::string date;  // that templates see, fixed when the run began; "" until one asks
  // What the recipe reads besides its own text, as Run::check_input takes it.
  struct Input {
    std::string kind, key, what;
    Json identity;
  };
  std::vector<Input> inputs;
};

// A console that prints to standard output or standard error, as wide and coloured as that is.
std::shared_ptr<Console> console_on(std::FILE* file);

// The session of a state.
Session& session_of(lua_State* L);

// Forgets all but its console, before a recipe begins again in its state.
void begin_anew(Session& session);

// The folder of the session's run, open by itself or in the run's hands; null before.
RunDir* run_dir_of(Session& session);

// The day that templates see: that of the run's beginning, also when it is resumed later.
const std::string& template_date(Session& session);

// Notes what the report before step 0 says, each text once; "" is nothing to say.
void add_notice(Session& session, const std::string& notice);

// Notes an input; compares it if the run is open already.
void note_input(Session& session, Session::Input input);

// Opens the folder that the command line and the resolved configuration name.
RunDir open_run_dir(lua_State* L);

// Version and digests of the running binary and its libraries: what a resume compares.
Json binary_identity();

// Runs a recipe from its file to its last checkpoint and summary: set-up, signals, the run's end;
// after an error or an interruption it saves what can be saved and says where. Returns the exit
// status 0; throws what the recipe threw, Interrupted after saving.
//
// Where the recipe pauses (--repl-at, SIGUSR1) `visit` is called; afterwards it goes on, if it is
// not done. Without one it never pauses.
using Visit = std::function<void(Recipe&)>;
int run_session(const RecipeOptions& options, const Visit& visit = {});

}  // namespace xrun
