#include "lua/bind/session.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/console/terminal/shown_text.h"
#include "core/run/record/run_record.h"
#include "core/run/signals.h"
#include "lua/state/interruption.h"
#include "lua/state/line_profile.h"
#include "lua/bind/loop_pause.h"
#include "lua/bind/modules.h"
#include "lua/bind/run_loop.h"

namespace xrun {

std::shared_ptr<Console> console_on(std::FILE* file) {
  return std::make_shared<Console>(
      [file](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), file);
        std::fflush(file);
      },
      console_traits(fileno(file)));
}

Session& session_of(lua_State* L) { return LuaState::of(L).service<Session>(); }

void begin_anew(Session& session) {
  Session fresh;
  fresh.console = session.console;
  fresh.prompt_in_charge = session.prompt_in_charge;
  fresh.note_touch = session.note_touch;
  // The run goes before the folder that it lies in.
  session.run = nullptr;
  session.run_dir = nullptr;
  session = std::move(fresh);
}

void add_notice(Session& session, const std::string& notice) {
  const auto said = std::find(session.notices.begin(), session.notices.end(), notice);
  if (!notice.empty() && said == session.notices.end()) session.notices.push_back(notice);
}

RunDir* run_dir_of(Session& session) {
  if (session.run != nullptr) return &session.run->run().dir();
  return session.run_dir.get();
}

Json binary_identity() {
  // The library that holds this function, and the core library beside it.
  Dl_info info{};
  Json identity = Json::object();
  if (dladdr(reinterpret_cast<const void*>(&binary_identity), &info) == 0) return identity;
  const std::filesystem::path engine = info.dli_fname;
  identity.set("torch", TORCH_VERSION);
  identity.set("engine", hash_file(engine));
  const std::filesystem::path core = engine.parent_path() / "libxrun_core.so";
  if (std::filesystem::exists(core)) identity.set("core", hash_file(core));
  return identity;
}

namespace {

// Which steps a failed save leaves behind.
std::string unsaved_text(const Run& run) {
  if (run.last_checkpoint().empty()) {
    return "nothing is saved; --resume starts from the beginning";
  }
  return fmt::format("what came after {} is not saved; --resume goes on from there",
                     run.last_checkpoint().string());
}

// run.state as it is, or as it was when the body began if it holds what cannot be saved.
Json state_to_save(const RunLoop& loop, Console& console) {
  try {
    return loop.read_state();
  } catch (const Error&) {
    console.print("run.state is saved as it was at the beginning of this step");
    return loop.run().body_state();
  }
}

// Where an interruption met the recipe: " at dpo.lua:37", or "".
std::string place_text(lua_State* L) {
  const std::string place = interrupted_at(L);
  return place.empty() ? "" : " at " + place;
}

// Saves what there is and says so. `interrupted`: by a signal, so that the user need not edit.
void save_after_error(lua_State* L, bool interrupted) {
  Session& session = session_of(L);
  Console& console = *session.console;
  if (session.run != nullptr) session.run->end_progress();
  const bool trained = session.run != nullptr && !session.run->run().replaying();
  std::filesystem::path saved;
  if (trained) {
    session.run->keep_memory_after_error();
    saved = session.run->run().save_after_error(state_to_save(*session.run, console));
  }
  if (interrupted && saved.empty()) {
    const bool old = session.run != nullptr && !session.run->run().last_checkpoint().empty();
    console.say(fmt::format("stopped{} before {} update; there was nothing{} to save",
                            place_text(L), old ? "another" : "the first", old ? " new" : ""));
  }
  if (saved.empty()) return;
  if (interrupted) {
    console.say(fmt::format("stopped{}; saved in {}; --resume goes on from there", place_text(L),
                            saved.string()));
  } else {
    console.say(fmt::format(
        "saved in {}; --resume goes on from there, of an edited recipe --run {} --resume --force",
        saved.string(), session.run->run().dir().path().string()));
  }
}

// The first error is what the user needs; a save that fails for another reason is said beside it.
[[noreturn]] void save_and_rethrow(lua_State* L) {
  const std::exception_ptr first = std::current_exception();
  std::string first_text;
  bool interrupted = false;
  try {
    std::rethrow_exception(first);
  } catch (const Interrupted&) {
    interrupted = true;
  } catch (const std::exception& error) {
    first_text = error.what();
  }
  const Session& session = session_of(L);
  try {
    save_after_error(L, interrupted);
  } catch (const std::exception& error) {
    // The same failure at another file ("a/latest.tmp1: cannot be written: No space left ...").
    const std::string text = error.what();
    const size_t colon = text.find(": ");
    const bool known =
        first_text.find(text.substr(colon == std::string::npos ? 0 : colon)) != std::string::npos;
    if (!known) session.console->say(fmt::format("could not save: {}", error.what()));
    session.console->say(unsaved_text(session.run->run()));
  }
  std::rethrow_exception(first);
}

// The caches that a recipe's data are in: their folders, byte for byte unless on a terminal, or an
// object each.
void print_caches(const Session& session, bool json) {
  for (size_t s = 0; s < session.cache_dirs.size(); ++s) {
    const SourceLedger& source = session.ledger.sources[s];
    const std::string dir = session.cache_dirs[s].string();
    const Json object(Json::Object{{"name", source.name},
                                   {"dir", dir},
                                   {"rows", source.rows},
                                   {"kept", source.kept},
                                   {"dropped", source.dropped_total()},
                                   {"tokens", source.tokens}});
    const std::string shown = ::isatty(STDOUT_FILENO) != 0 ? shown_text(dir) : dir;
    std::printf("%s\n", json ? dump_json(object).c_str() : shown.c_str());
  }
}

int finish_caching(const Session& session, bool json) {
  if (!json) session.console->say(session.ledger_text);
  print_caches(session, json);
  return 0;
}

// Runs to the end, with a visit at each pause.
void run_to_end(Recipe& recipe, const Visit& visit) {
  Session& session = session_of(recipe.state());
  const std::optional<int64_t> repl_at = recipe.context().options.repl_at;
  recipe.state().service<PausePlan>().before_step = repl_at.value_or(-1);
  bool paused = false;
  while (!recipe.done() && recipe.resume()) {
    XRUN_CHECK(recipe.pause() != nullptr,
               "{}: coroutine.yield outside a coroutine of the recipe's own",
               recipe.context().options.recipe);
    session.run->end_progress();
    paused = true;
    visit(recipe);
    if (recipe.failure()) std::rethrow_exception(recipe.failure());
  }
  if (session.run != nullptr) session.run->finish(session.run->read_state());
  if (!repl_at || paused) return;
  session.console->print(fmt::format(
      "--repl-at {}: no body of this step began{}", *repl_at,
      session.run == nullptr ? ""
                             : fmt::format("; the run has {} bodies", session.run->run().step())));
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts)};
}

}  // namespace

const std::string& template_date(Session& session) {
  if (!session.date.empty()) return session.date;
  const Json* begun = session.run_dir ? session.run_dir->record().find("date") : nullptr;
  session.date = begun != nullptr && begun->is_string() ? begun->as_string() : today();
  return session.date;
}

void note_input(Session& session, Session::Input input) {
  session.inputs.push_back(std::move(input));
  if (session.run != nullptr) session.run->check(session.inputs.back());
}

RunDir open_run_dir(lua_State* L) {
  const RecipeContext& context = recipe_context(L);
  const RecipeOptions& options = context.options;
  RunIdentity identity;
  identity.recipe_name = std::filesystem::path(options.recipe).stem().string();
  identity.recipe_text = context.text.text;
  identity.config = context.config.values();
  identity.origins = context.config.to_json().at("origins");
  const bool looks = options.purpose == RecipePurpose::kLook;
  if (!looks) identity.binary = binary_identity();
  identity.machine = Json(Json::Object{{"device", options.device},
                                       {"threads", static_cast<int64_t>(at::get_num_threads())}});
  if (!looks) {
    return RunDir::open(std::move(identity), {options.run_dir, options.resume, options.force});
  }
  Session& session = session_of(L);
  session.scratch = std::make_unique<TemporaryDir>("look");
  return RunDir::open(std::move(identity), {.dir = session.scratch->path() / "run"});
}

namespace {

// A profile with what the processes before a resume counted; one that cannot be read begins anew.
Json whole_profile(const LineProfile& profile, const RunDir& dir, const std::filesystem::path& file,
                   Console& console) {
  Json now = profile.to_json();
  if (!dir.resuming() || !path_exists(file)) return now;
  try {
    return add_profiles(read_json(file.string()), now);
  } catch (const Error& error) {
    console.say(fmt::format("{}: {}; the profile begins anew", file.string(), error.what()));
    return now;
  }
}

// Writes what was counted so far into the run's folder, if a profile is taken.
void keep_profile(const std::optional<LineProfile>& profile, Session& session) {
  const RunDir* dir = run_dir_of(session);
  if (!profile || dir == nullptr) return;
  const std::filesystem::path file = dir->path() / "profile.json";
  try {
    const Json whole = whole_profile(*profile, *dir, file, *session.console);
    write_file_atomic(file, dump_json(whole) + "\n");
    session.console->say(fmt::format("time and bytes by line: {}", file.string()));
  } catch (const Error& error) {
    session.console->say(error.what());
  }
}

}  // namespace

int run_session(const RecipeOptions& options, const Visit& visit) {
  set_up_torch(options.threads);
  Recipe recipe(options, engine_modules());
  Session& session = session_of(recipe.state());
  // A script reads the folders of caches, and what is said beside them is for people.
  const bool caches = options.purpose == RecipePurpose::kCache;
  session.console = console_on(caches ? stderr : stdout);
  LuaState::set_interruptible(&recipe.state());
  set_signal_hook(LuaState::interrupt_from_signal);
  set_stopping_text("\nstopping; another Ctrl-C stops at once\n");
  install_signal_handlers();
  if (visit) install_pause_handler();
  // A folder that cannot be written or is in use is an error before any data are read.
  if (!caches && recipe.context().text.text.find("xrun.run(") != std::string::npos) {
    session.run_dir = std::make_unique<RunDir>(open_run_dir(recipe.state()));
    if (!session.run_dir->resuming()) {
      for (const std::string& notice : session.run_dir->notices()) session.console->say(notice);
    }
  }
  std::optional<LineProfile> profile;
  if (options.profile) profile.emplace(recipe.state());
  try {
    run_to_end(recipe, visit);
    keep_profile(profile, session);
  } catch (...) {
    LuaState::set_interruptible(nullptr);
    if (session.already_finished) return caches ? finish_caching(session, options.json) : 0;
    keep_profile(profile, session);
    save_and_rethrow(recipe.state());
  }
  LuaState::set_interruptible(nullptr);
  return caches ? finish_caching(session, options.json) : 0;
}

}  // namespace xrun
