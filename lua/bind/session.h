#pragma once
// State shared by the bindings of one recipe, split by owner: notices, inputs, models, the run's
// folder and the run.

#include <cstdio>
#include <filesystem>
#include <lua.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/process_usage.h"
#include "core/base/temporary_dir.h"
#include "core/console/terminal/console.h"
#include "core/data/rows/ledger.h"
#include "core/run/run_dir.h"
#include "lua/bind/recipe.h"
#include "lua/bind/session_models.h"

namespace xrun {

class AlignedRows;
class Ranks;
class Run;
class RunLoop;
struct BodyRollouts;

// Lines for the report before step 0, and the state of notices that are printed later.
struct SessionNotices {
  std::vector<std::string> lines;
  int64_t largest_logits = 0;       // most elements of a policy:logits
  bool host_copy_reported = false;  // weights in ranges on a GPU are decoded on the CPU
  int64_t skipped_steps = 0;        // steps without an update; the first is reported at once

  void add(const std::string& line);  // a known line and "" are ignored
};

// The data and other inputs that the recipe opened.
struct SessionInputs {
  // Something the recipe reads besides its own text, as Run::check_input takes it.
  struct Input {
    std::string kind, key, what;
    Json identity;
  };
  std::vector<Input> inputs;
  Ledger ledger;                                  // of every data source, in order
  std::string ledger_text;                        // its new lines since it was last printed
  std::vector<std::filesystem::path> cache_dirs;  // one for each source of the ledger
  std::vector<std::weak_ptr<const AlignedRows>> alignments;  // of data sets with teachers
  std::string date;  // the day that templates see, fixed when the run began; "" until one asks
};

// The folder of the run, before and after xrun.run opens it.
struct RunFolder {
  bool opens_early = false;               // it opens at xrun.config, before any work
  std::unique_ptr<TemporaryDir> scratch;  // of a preview; null for other runs
  std::unique_ptr<RunDir> dir;            // from xrun.config until xrun.run takes it
};

// Belongs to a LuaState (LuaState::service). run_session sets the console before the recipe runs.
struct Session {
  SteadyClock::time_point began = SteadyClock::now();
  std::shared_ptr<Console> console;  // never null while a recipe runs
  SessionNotices notices;
  SessionInputs data;
  SessionModels models;
  RunFolder folder;
  std::shared_ptr<RunLoop> run;                 // the latest xrun.run; null before
  Run* open_run = nullptr;                      // the run inside it
  std::shared_ptr<BodyRollouts> rollouts;       // of the open body; null: it sampled none
  std::shared_ptr<BodyRollouts> last_rollouts;  // of the latest body that sampled some
};

// A console that prints to standard output or standard error, as wide and coloured as that is.
std::shared_ptr<Console> console_on(std::FILE* file);

// The session of a state.
Session& session_of(lua_State* L);

// Clears everything but the console, before a recipe begins again in its state.
void clear_session(Session& session);

// The ranks of the run; null in one process. All ranks run the recipe, with the same values in
// every variable; core/dist/agreement.h holds what they share.
Ranks* session_ranks(lua_State* L);

// Throws Interrupted if a signal asks to stop; with ranks, only where the run may be interrupted
// now. It is called only in work whose failure the ranks agree on; elsewhere a signal waits for the
// end of the step.
void check_stop(lua_State* L);

// The folder of the session's run; null before it is opened.
RunDir* run_dir_of(Session& session);

// The day that templates see. A resumed run keeps the day on which it began; a bundle's run has the
// day of its recorded steps.
const std::string& template_date(lua_State* L);

// Records an input; if a run is open, compares it with what the run began with.
void note_input(Session& session, SessionInputs::Input input);
// Compares an input of a run with what it was when the run began.
void check_input(Run& run, const SessionInputs::Input& input);

// Opens the folder that the command line and the resolved configuration name; a preview gets a
// temporary one.
RunDir open_run_dir(lua_State* L);

// Opens the run's folder at xrun.config, so that a folder that cannot be written, is in use or
// refuses a resume is an error before any data are read. Does nothing in a preview.
void open_run_dir_early(lua_State* L);

// Version and digests of the running binary and its libraries, which a resume compares.
Json binary_identity();

// Returns the identity for the locks of bundles, which compare two machines: {"source": SHA-256 of
// the sources, "torch", "compiler", "engine", "core": SHA-256 of the libraries}.
Json binary_lock();

}  // namespace xrun
