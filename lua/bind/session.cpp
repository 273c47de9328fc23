#include "lua/bind/session.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/run/signals.h"
#include "lua/bind/modules.h"
#include "lua/bind/run_loop.h"

namespace xrun {

Session& session_of(lua_State* L) { return LuaState::of(L).service<Session>(); }

Json binary_identity() {
  // The library that holds this function, and the core library beside it.
  Dl_info info{};
  Json identity = Json::object();
  if (dladdr(reinterpret_cast<const void*>(&binary_identity), &info) == 0) return identity;
  const std::filesystem::path engine = info.dli_fname;
  identity.set("engine", hash_file(engine));
  const std::filesystem::path core = engine.parent_path() / "libxrun_core.so";
  if (std::filesystem::exists(core)) identity.set("core", hash_file(core));
  return identity;
}

namespace {

void save_after_error(Session& session) {
  if (session.run == nullptr) return;
  session.run->end_progress();
  const std::filesystem::path saved =
      session.run->run().save_after_error(session.run->read_state());
  if (saved.empty()) return;
  session.console->print(fmt::format("saved in {}; --resume goes on from there", saved.string()));
}

// The first error is what the user needs; a save that fails as well is said
// beside it.
[[noreturn]] void save_and_rethrow(Session& session) {
  try {
    throw;
  } catch (...) {
    const std::exception_ptr first = std::current_exception();
    try {
      save_after_error(session);
    } catch (const std::exception& error) {
      session.console->print(fmt::format("could not save: {}", error.what()));
    }
    std::rethrow_exception(first);
  }
}

std::shared_ptr<Console> standard_console() {
  return std::make_shared<Console>(
      [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      },
      console_traits(STDOUT_FILENO));
}

}  // namespace

RunDir open_run_dir(lua_State* L) {
  const RecipeContext& context = recipe_context(L);
  const RecipeOptions& options = context.options;
  RunIdentity identity;
  identity.recipe_name = std::filesystem::path(options.recipe).stem().string();
  identity.recipe_text = context.text.text;
  identity.config = context.config.values();
  identity.origins = context.config.to_json().at("origins");
  identity.binary = binary_identity();
  identity.machine = Json(Json::Object{{"device", options.device},
                                       {"threads", static_cast<int64_t>(at::get_num_threads())}});
  return RunDir::open(std::move(identity), {options.run_dir, options.resume, options.force});
}

int run_session(const RecipeOptions& options) {
  set_up_torch(options.threads);
  Recipe recipe(options, engine_modules());
  Session& session = session_of(recipe.state());
  session.console = standard_console();
  LuaState::set_interruptible(&recipe.state());
  set_signal_hook(LuaState::interrupt_from_signal);
  install_signal_handlers();
  // A folder that cannot be written or is in use is an error before any data are read.
  if (recipe.context().text.text.find("xrun.run(") != std::string::npos) {
    session.run_dir = std::make_unique<RunDir>(open_run_dir(recipe.state()));
  }
  try {
    XRUN_CHECK(!recipe.resume(), "{}: coroutine.yield outside a coroutine of the recipe's own",
               options.recipe);
    if (session.run != nullptr) session.run->finish(session.run->read_state());
  } catch (...) {
    LuaState::set_interruptible(nullptr);
    if (session.already_finished) return 0;
    save_and_rethrow(session);
  }
  LuaState::set_interruptible(nullptr);
  return 0;
}

}  // namespace xrun
