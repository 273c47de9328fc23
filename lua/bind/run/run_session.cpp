// When a run fails: keep the error, clear the progress line, save what a resume can use, report the
// save, rethrow.

#include "lua/bind/run/run_session.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/interrupt.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/summary.h"
#include "core/dist/agreement.h"
#include "core/dist/watch/flight_record.h"
#include "core/run/record/run_record.h"
#include "core/run/signals.h"
#include "lua/bind/modules.h"
#include "lua/bind/run/loop_rollouts.h"
#include "lua/bind/run/run_loop.h"
#include "lua/state/error_report.h"
#include "lua/state/interruption.h"
#include "lua/state/line_profile.h"

namespace xrun {

namespace {

constexpr const char* kNothingSaved = "only whole steps are saved, so nothing is saved yet";

std::string command_to_resume(const RunLoop& loop) {
  return resume_command(loop.recipe(), loop.run().dir().path().string());
}

// The steps that a failed save loses.
std::string unsaved_text(const Run& run) {
  if (run.last_checkpoint().empty()) {
    return "nothing is saved; --resume starts from the beginning";
  }
  return fmt::format("the steps after {} are not saved; --resume repeats them",
                     run.last_checkpoint().string());
}

// run.state now, or when the body began if a value in it cannot be saved.
Json state_to_save(const RunLoop& loop, Console& console) {
  try {
    return loop.read_state();
  } catch (const Error&) {
    console.print_raw("run.state is saved as it was at the beginning of this step");
    return loop.run().body_state();
  }
}

// The line of the recipe that an interruption stopped: " at dpo.lua:37", or "".
std::string line_text(lua_State* L) {
  const std::string line = interrupted_at(L);
  return line.empty() ? "" : " at " + line;
}

// " in step 3, which has to be repeated", if updates of the open body were given up.
std::string dropped_text(const Run& run) {
  if (run.dropped_updates() == 0) return "";
  return fmt::format(" in step {}, which has to be repeated", run.step());
}

std::string minutes_text(double minutes) {
  return fmt::format("{:g} minute{}", minutes, minutes == 1 ? "" : "s");
}

std::string interrupted_text(lua_State* L, const RunLoop* loop, const std::string& saved) {
  const std::string stopped = interrupt_signal() == kTimeIsUp && loop != nullptr
                                  ? fmt::format("stopped: the time is up (stop.after = {})",
                                                minutes_text(loop->run().settings().stop_minutes))
                                  : "stopped" + line_text(L);
  if (loop == nullptr) return stopped + " before the first update; there was nothing to save";
  const Run& run = loop->run();
  if (!saved.empty()) {
    return fmt::format("{}{}; saved in {}\nto continue: {}", stopped, dropped_text(run), saved,
                       command_to_resume(*loop));
  }
  if (run.dropped_updates() > 0) {
    return fmt::format("{} in step {}, the first one; {}", stopped, run.step(), kNothingSaved);
  }
  const bool old = !run.last_checkpoint().empty();
  return fmt::format("{} before {} update; there was nothing{} to save", stopped,
                     old ? "another" : "the first", old ? " new" : "");
}

// After the save, since a step is worth more than the record of its answers.
void write_last_answers(RunLoop& loop, int64_t step, Console& console) {
  try {
    write_rollouts_after_error(loop, step);
  } catch (const std::exception& error) {
    console.print_escaped(
        fmt::format("step {} has no record of its answers: {}", step, error.what()));
  }
}

// Saves what it can and reports it.
//   interrupted  by a signal, so the user need not edit the recipe
//   message      the error
void save_after_error(lua_State* L, bool interrupted, const std::string& message) {
  Session& session = session_of(L);
  Console& console = *session.console;
  // A progress line would stay half drawn above the message.
  if (session.run != nullptr) session.run->report().end_progress();
  // While steps are replayed the checkpoint is newer than what memory holds.
  const bool trained = session.run != nullptr && !session.run->run().replaying();
  std::string saved;
  if (trained) {
    session.run->memory().record_after_error();
    const Json state = state_to_save(*session.run, console);
    // Before the save, which may give the open body up.
    const int64_t step = session.run->run().step();
    saved = session.run->run().save_after_error(state, message).string();
    write_last_answers(*session.run, step, console);
  }
  std::string text;
  const bool dropped = trained && session.run->run().dropped_updates() > 0;
  if (interrupted) {
    text = interrupted_text(L, session.run.get(), saved);
  } else if (!saved.empty()) {
    text = fmt::format("saved in {}{}\nto continue: {}   (with --force if you edit the recipe)",
                       saved, dropped_text(session.run->run()), command_to_resume(*session.run));
  } else if (dropped) {
    text = kNothingSaved;
  }
  if (text.empty()) return;
  console.print_escaped(text);
  if (trained) session.run->report().log_line(text);
}

// The user needs the first error; a save that fails for another reason is reported beside it.
[[noreturn]] void save_and_rethrow(lua_State* L) {
  const std::exception_ptr first = caught_around_lua();
  std::string first_text;
  bool interrupted = false;
  try {
    std::rethrow_exception(first);
  } catch (const Interrupted&) {
    interrupted = true;
    first_text = "stopped";
  } catch (const c10::Error& error) {
    first_text = error.what_without_backtrace();
  } catch (const std::exception& error) {
    first_text = error.what();
  }
  Session& session = session_of(L);
  try {
    save_after_error(L, interrupted, first_text);
    // A start that trained nothing would be the newest run, which --resume takes.
    if (RunDir* dir = run_dir_of(session)) dir->undo_begin();
  } catch (const std::exception& error) {
    // The same failure at another file ("a/latest.tmp1: cannot be written: No space left ...").
    const std::string text = error.what();
    const size_t colon = text.find(": ");
    const bool known =
        first_text.find(text.substr(colon == std::string::npos ? 0 : colon)) != std::string::npos;
    if (!known) session.console->print_escaped(fmt::format("could not save: {}", error.what()));
    session.console->print_escaped(unsaved_text(session.run->run()));
  } catch (...) {  // Lua's own: no memory is left
    if (session.run != nullptr) session.console->print_escaped(unsaved_text(session.run->run()));
  }
  std::rethrow_exception(first);
}

// Prints the cache of each source: its folder, escaped only on a terminal, or an object.
void print_caches(const Session& session, bool json) {
  for (size_t s = 0; s < session.data.cache_dirs.size(); ++s) {
    const SourceLedger& source = session.data.ledger.sources[s];
    const std::string dir = session.data.cache_dirs[s].string();
    const Json object(Json::Object{{"name", source.name},
                                   {"dir", dir},
                                   {"rows", source.rows},
                                   {"kept", source.kept},
                                   {"dropped", source.dropped_total()},
                                   {"tokens", source.tokens}});
    // A script needs the path itself; a terminal must not run what a file name has in it.
    const std::string shown = ::isatty(STDOUT_FILENO) != 0 ? shown_text(dir) : dir;
    std::printf("%s\n", json ? dump_json(object).c_str() : shown.c_str());
  }
}

int finish_caching(const Session& session, bool json) {
  if (!json) session.console->print_escaped(session.data.ledger_text);
  print_caches(session, json);
  return 0;
}

// Returns the profile, added to that of earlier processes of a resumed run unless it is unreadable.
Json whole_profile(const LineProfile& profile, const RunDir& dir, const std::filesystem::path& file,
                   Console& console) {
  Json now = profile.to_json();
  if (!dir.resuming() || !path_exists(file)) return now;
  try {
    return add_profiles(read_json(file.string()), now);
  } catch (const Error& error) {
    console.print_escaped(
        fmt::format("{}: {}; the profile starts over", file.string(), error.what()));
    return now;
  }
}

// Writes the profile so far into the run's folder, if one is taken.
void keep_profile(const std::optional<LineProfile>& profile, Session& session) {
  const RunDir* dir = run_dir_of(session);
  if (!profile || dir == nullptr) return;
  const std::filesystem::path file = dir->path() / "profile.json";
  try {
    const Json whole = whole_profile(*profile, *dir, file, *session.console);
    write_file_atomic(file, dump_json(whole) + "\n");
    session.console->print_escaped(fmt::format("time and bytes by line: {}", file.string()));
  } catch (const Error& error) {
    session.console->print_escaped(error.what());
  }
}

// The line of the recipe that runs: "recipes/dpo.lua:31".
std::string running_line(Recipe& recipe) {
  lua_Debug frame{};
  for (int level = 0; lua_getstack(recipe.thread(), level, &frame) != 0; ++level) {
    lua_getinfo(recipe.thread(), "Sl", &frame);
    // The innermost frame of a file, which skips xrun's own functions.
    if (frame.source[0] == '@' && frame.currentline > 0) {
      return fmt::format("{}:{}", frame.source + 1, frame.currentline);
    }
  }
  return "";
}

// Ranks after the first say nothing unless they fail.
void silence(lua_State* L, Session& session) {
  session.console = std::make_shared<Console>([](std::string_view) {}, ConsoleTraits());
  lua_pushcfunction(L, [](lua_State*) { return 0; });
  lua_setglobal(L, "print");
}

}  // namespace

RunSession::RunSession(const RecipeOptions& options) {
  set_up_torch(options.threads);
  recipe_ = std::make_unique<Recipe>(options, engine_modules());
  LuaState& state = recipe_->state();
  Session& session = session_of(state);
  // A script reads the folders of caches from standard output; the rest is for people.
  const bool caches = options.purpose == RecipePurpose::kCache;
  session.console = console_on(caches ? stderr : stdout);
  if (!is_first_rank(options.ranks)) silence(state, session);
  session.folder.opens_early = !caches;
  for (const std::string& notice : options.notices) session.console->print_escaped(notice);
  LuaState::set_interruptible(&state);
  // A signal may reach ranks at different lines: all stop at the end of a step, or in work that
  // they share.
  if (options.ranks == nullptr) set_signal_hook(LuaState::interrupt_from_signal);
  set_stopping_text("\nstopping; another Ctrl-C stops at once\n");
  install_signal_handlers();
  if (options.profile) profile_.emplace(state);
  // Reports of a rank's collectives name the line of this recipe.
  flight_record().set_call_site([this] { return running_line(*recipe_); });
}

RunSession::~RunSession() { flight_record().set_call_site(nullptr); }

int RunSession::end() {
  Session& session = session_of(recipe_->state());
  const bool early = recipe_->ended_early();
  if (!early && session.run != nullptr) session.run->finish(session.run->read_state());
  if (!early) keep_profile(profile_, session);
  LuaState::set_interruptible(nullptr);
  const RecipeOptions& options = recipe_->context().options;
  return options.purpose == RecipePurpose::kCache ? finish_caching(session, options.json) : 0;
}

void RunSession::fail() {
  LuaState::set_interruptible(nullptr);
  keep_profile(profile_, session_of(recipe_->state()));
  save_and_rethrow(recipe_->state());
}

int run_session(const RecipeOptions& options) {
  RunSession session(options);
  try {
    if (session.recipe().resume()) session.recipe().refuse_yield();
    return session.end();
  } catch (...) {
    session.fail();
  }
}

}  // namespace xrun
