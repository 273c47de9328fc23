// One Session per Lua state. The run's folder opens at xrun.config, before any data are read, and
// moves into the run at xrun.run.

#include "lua/bind/session.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/dist/ranks.h"
#include "core/run/rank_check.h"
#include "core/run/run.h"
#include "core/run/source_digest.h"
#include "core/share/input_files.h"
#include "lua/state/error_report.h"
#include "lua/state/outside_error.h"

namespace xrun {

namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts)};
}

}  // namespace

std::shared_ptr<Console> console_on(std::FILE* file) {
  return std::make_shared<Console>([file](std::string_view text) { write_through(file, text); },
                                   console_traits(fileno(file)));
}

Ranks* session_ranks(lua_State* L) { return recipe_context(L).options.ranks; }

// With ranks an interruption inside the shared work of a step would leave the others waiting in a
// collective, so it is taken only where the run allows it.
void check_stop(lua_State* L) {
  if (session_ranks(L) == nullptr) return check_interrupt(L);
  Run* const run = session_of(L).open_run;
  if (run == nullptr || run->may_interrupt_now()) check_interrupt();
}

Session& session_of(lua_State* L) { return LuaState::of(L).service<Session>(); }

void SessionNotices::add(const std::string& line) {
  const bool known = std::find(lines.begin(), lines.end(), line) != lines.end();
  if (!line.empty() && !known) lines.push_back(line);
}

void clear_session(Session& session) {
  Session fresh;
  fresh.console = session.console;
  // The run is destroyed before the folder that it is in.
  session.run = nullptr;
  session.open_run = nullptr;
  session.folder.dir = nullptr;
  session = std::move(fresh);
}

RunDir* run_dir_of(Session& session) {
  if (session.open_run != nullptr) return &session.open_run->dir();
  return session.folder.dir.get();
}

Json binary_identity() {
  // Hashed once: the loaded code stays the same even if its files are replaced.
  static const Json loaded = [] {
    // The library that holds this function, and the core library beside it.
    Dl_info info{};
    Json identity = Json::object();
    if (dladdr(reinterpret_cast<const void*>(&binary_identity), &info) == 0) return identity;
    const std::filesystem::path engine = info.dli_fname;
    identity.set("torch", TORCH_VERSION);
    identity.set("engine", hash_file(engine));
    const std::filesystem::path core = engine.parent_path() / "libxrun_core.so";
    if (path_exists(core)) identity.set("core", hash_file(core));
    return identity;
  }();
  return loaded;
}

Json binary_lock() {
  Dl_info info{};
  Json lock(
      Json::Object{{"source", kSourceDigest}, {"torch", TORCH_VERSION}, {"compiler", __VERSION__}});
  if (dladdr(reinterpret_cast<const void*>(&binary_lock), &info) == 0) return lock;
  const std::filesystem::path engine = info.dli_fname;
  lock.set("engine", file_sha256(engine));
  lock.set("core", file_sha256(engine.parent_path() / "libxrun_core.so"));
  return lock;
}

const std::string& template_date(lua_State* L) {
  Session& session = session_of(L);
  std::string& date = session.data.date;
  if (!date.empty()) return date;
  RunDir* const dir = run_dir_of(session);
  const Json* begun = dir == nullptr ? nullptr : dir->record().find("date");
  if (begun != nullptr && begun->is_string()) return date = begun->as_string();
  const OpenedBundle* const bundle = bundle_of(L);
  const bool recorded = bundle != nullptr && bundle->lock.run && !bundle->lock.run->date.empty();
  date = recorded ? bundle->lock.run->date : today();
  // xrun.run has recorded the day of earlier sets only.
  if (session.open_run != nullptr) dir->record().set("date", date);
  return date;
}

void note_input(Session& session, SessionInputs::Input input) {
  session.data.inputs.push_back(std::move(input));
  if (session.open_run != nullptr) check_input(*session.open_run, session.data.inputs.back());
}

void check_input(Run& run, const SessionInputs::Input& input) {
  outside_recipe([&] { run.check_input(input.kind, input.key, input.what, input.identity); });
}

RunDir open_run_dir(lua_State* L) {
  const RecipeContext& context = recipe_context(L);
  const RecipeOptions& options = context.options;
  RunIdentity identity;
  identity.recipe_name = recipe_name(options.recipe);
  identity.recipe_text = context.text.text;
  identity.config = context.config.values();
  identity.origins = context.config.to_json().at("origins");
  identity.sets = options.sets;
  identity.machine = Json(Json::Object{{"device", options.device},
                                       {"threads", static_cast<int64_t>(at::get_num_threads())}});
  if (options.ranks != nullptr) identity.machine.set("ranks", options.ranks->size());
  if (options.purpose == RecipePurpose::kPreview) {
    RunFolder& folder = session_of(L).folder;
    folder.scratch = std::make_unique<TemporaryDir>("preview");
    return RunDir::open(std::move(identity), {.dir = folder.scratch->path() / "run"});
  }
  identity.binary = binary_identity();
  return outside_recipe([&] {
    compare_identities(options.ranks, identity);
    return RunDir::open(std::move(identity),
                        {options.run_dir, options.resume, options.force, options.ranks});
  });
}

void open_run_dir_early(lua_State* L) {
  Session& session = session_of(L);
  if (!session.folder.opens_early || run_dir_of(session) != nullptr) return;
  session.folder.dir = std::make_unique<RunDir>(open_run_dir(L));
  if (session.folder.dir->resuming()) return;  // the resume reports them
  for (const std::string& notice : session.folder.dir->notices())
    session.console->print_escaped(notice);
}

}  // namespace xrun
