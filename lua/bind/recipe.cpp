// A recipe runs as a coroutine, so that it can be paused between steps. An error leaves the stack
// of the coroutine intact; the report is made from it.

#include "lua/bind/recipe.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <filesystem>

#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/file_access.h"
#include "core/config/config_field.h"
#include "core/data/cache/data_files.h"
#include "core/dist/fetching_ranks.h"
#include "core/model/weights/model_registry.h"
#include "core/share/input_files.h"
#include "core/train/models/gradient_exchange.h"
#include "lua/bind/modules.h"
#include "lua/bind/recipe_seed.h"
#include "lua/bind/recipe_text.h"
#include "lua/bind/run_hooks.h"
#include "lua/state/args.h"
#include "lua/state/source_texts.h"

namespace xrun {
namespace {

struct ContextSlot {
  std::unique_ptr<RecipeContext> context;
};

[[noreturn]] void throw_report(std::shared_ptr<const ErrorReport> report) {
  // A signal is not an error of the recipe, whichever line it interrupted.
  if (report->signal_number != 0) throw Interrupted(report->signal_number);
  if (report->usage) throw UsageError(report->text());
  throw LuaError(std::move(report));
}

// Suspends a preview once more at its end. It is a syntax error after a `return`.
constexpr const char* kPauseAtEnd = "\ndo (...)() end";

// Called by kPauseAtEnd.
int pause_at_end(lua_State* L) {
  recipe_context(L).at_end = true;
  return lua_yield(L, 0);
}

// The message handler of the recipe.
int report_end(lua_State* L) {
  if (RunHooks* const hooks = run_hooks(L)) hooks->on_failure(L, nullptr, true);
  return message_handler(L);
}

// Loads the text, or throws its syntax error.
void load_text(lua_State* L, const RecipeOptions& options, const std::string& text) {
  const std::string chunk = "@" + options.recipe;
  remember_source(L, chunk, text);
  // Before the config is resolved: of two errors in a recipe, the one that Lua finds explains the
  // other.
  XRUN_CHECK(!text.starts_with("\x1bLJ"), "{}: this is bytecode; recipes are text", options.recipe);
  const bool shebang = text.starts_with('#');
  // The shebang becomes a comment, so that line numbers stay.
  const std::string body = shebang ? "--" + text : text;
  // The text alone first: kPauseAtEnd would be the body of a loop that ends with its head.
  if (luaL_loadbuffer(L, body.data(), body.size(), chunk.c_str()) != 0) {
    throw_report(syntax_report(L, -1));
  }
  if (options.purpose != RecipePurpose::kPreview) return;
  const std::string longer = body + kPauseAtEnd;
  const bool pauses = luaL_loadbuffer(L, longer.data(), longer.size(), chunk.c_str()) == 0;
  lua_remove(L, pauses ? -2 : -1);
}

}  // namespace

const OpenedBundle* bundle_of(lua_State* L) {
  const RecipeContext* const context = LuaState::of(L).service<ContextSlot>().context.get();
  return context == nullptr ? nullptr : context->options.bundle.get();
}

RunHooks* run_hooks(lua_State* L) {
  const RecipeContext* const context = LuaState::of(L).service<ContextSlot>().context.get();
  return context == nullptr ? nullptr : context->hooks;
}

namespace {

// The system would open the path that ends before the zero byte.
void check_zero_bytes(const std::string& path) {
  XRUN_CHECK(path.find('\0') == std::string::npos,
             "{}: got a path with a zero byte, wanted one without", path);
}

}  // namespace

std::string local_path(lua_State* L, const std::string& path) {
  check_zero_bytes(path);
  const OpenedBundle* const bundle = bundle_of(L);
  return bundle != nullptr ? bundle->local_path(path) : path;
}

namespace {

// Checks the paths of an untrusted recipe before anything looks at the files. A name without a
// folder may be "auto" or a built-in one, unless a file of that name exists, or a link that the
// recipe's author put there.
void check_input(InputKind kind, const std::string& name) {
  if (name.empty()) return;
  if (kind == InputKind::kModel) return check_model_name(name);
  const bool several = kind == InputKind::kData && name.find_first_of("*?[") != std::string::npos;
  const std::string path = several ? split_glob(name).first : name;
  std::error_code none;
  const bool is_path = path.find('/') != std::string::npos ||
                       std::filesystem::exists(std::filesystem::symlink_status(path, none));
  if (is_path) check_read(path);
}

}  // namespace

std::string local_input(lua_State* L, InputKind kind, const std::string& name) {
  check_zero_bytes(name);
  const OpenedBundle* const bundle = bundle_of(L);
  const std::string local = bundle != nullptr ? bundle->local_input(kind, name) : name;
  check_input(kind, local);
  return local;
}

RecipeContext& recipe_context(lua_State* L) {
  const auto& slot = LuaState::of(L).service<ContextSlot>();
  XRUN_CHECK(slot.context != nullptr, "no recipe runs in this Lua state");
  return *slot.context;
}

DistOptions recipe_dist(lua_State* L) {
  const RecipeContext& context = recipe_context(L);
  return {.ranks = context.options.ranks, .level = config_whole(L, "dist.level"), .exact = true};
}

int end_recipe(lua_State* L) {
  RecipeContext& context = recipe_context(L);
  XRUN_CHECK(
      L == context.thread && lua_isyieldable(L) != 0,
      "{}: nothing is left to do, but xrun.run was called in a coroutine, which cannot end the "
      "recipe; call it in the recipe's main chunk",
      context.options.recipe);
  // The coroutine is never resumed, so nothing after xrun.run executes.
  context.ended_early = true;
  return lua_yield(L, 0);
}

Recipe::Recipe(const RecipeOptions& options, const std::vector<OpenModule>& modules)
    : Recipe(options, modules, read_recipe(options)) {}

Recipe::Recipe(const RecipeOptions& options, const std::vector<OpenModule>& modules,
               const std::string& text) {
  auto context = std::make_unique<RecipeContext>();
  context->options = options;
  context->text = scan_recipe_of(options, text);

  state_ = std::make_unique<LuaState>(LuaOptions{.jit = options.jit});
  lua_State* L = *state_;
  load_text(L, options, context->text.text);
  context->config = Config::resolve(context->text, options.sets);
  if (options.ranks != nullptr) {
    ranks_ = std::make_unique<FetchingRanks>(*options.ranks);
    context->options.ranks = context->fetching = ranks_.get();
  }
  state_->service<ContextSlot>().context = std::move(context);
  for (OpenModule open : modules) open(*state_);
  open_require(*state_);
  // After the modules, which still define globals.
  open_strict_globals(*state_);
  seed_recipe(*state_, static_cast<uint64_t>(config_whole(L, "seed")), 0, 0);

  start_thread();
}

void Recipe::start_thread() {
  lua_State* L = *state_;
  RecipeContext& context = this->context();
  // xpcall inside the coroutine: a dead coroutine no longer knows the line of its top frame.
  thread_ = lua_newthread(L);
  thread_ref_ = LuaRef(L, -1);
  lua_pop(L, 1);
  context.thread = thread_;
  const int below = lua_gettop(L) - 1;  // the loaded text is on top
  lua_getglobal(L, "xpcall");
  lua_insert(L, -2);
  lua_pushcfunction(L, report_end);
  if (context.options.purpose == RecipePurpose::kPreview) lua_pushcfunction(L, pause_at_end);
  lua_xmove(L, thread_, lua_gettop(L) - below);
}

void Recipe::restart(const std::string& text) {
  RecipeContext& context = this->context();
  lua_State* L = *state_;
  const int top = lua_gettop(L);
  ScannedRecipe read = scan_recipe_of(context.options, text);
  load_text(L, context.options, read.text);
  try {
    context.config = Config::resolve(read, context.options.sets);
  } catch (...) {
    lua_settop(L, top);
    throw;
  }
  // A changed module is read again, too.
  forget_modules(L);
  context.text = std::move(read);
  context.ended_early = context.at_end = false;
  // This function belongs to the run of the old text.
  state_->may_interrupt = nullptr;
  start_thread();
  started_ = done_ = false;
  failure_ = nullptr;
  seed_recipe(*state_, static_cast<uint64_t>(config_whole(L, "seed")), 0, 0);
}

Recipe::~Recipe() = default;

RecipeContext& Recipe::context() { return recipe_context(*state_); }

void Recipe::refuse_yield() {
  throw Error(fmt::format("{}: coroutine.yield outside a coroutine of the recipe's own",
                          context().options.recipe));
}

bool Recipe::ended_early() { return context().ended_early; }

bool Recipe::at_end() { return context().at_end; }

bool Recipe::resume() {
  RecipeContext& context = this->context();
  XRUN_CHECK(!done_, "{} has ended and cannot be resumed", context.options.recipe);
  XRUN_CHECK(!started_ || lua_status(thread_) == LUA_YIELD,
             "{} is running; it can only be resumed while it is paused", context.options.recipe);
  context.at_end = false;
  const LuaScope lua;
  const int status = lua_resume(thread_, started_ ? 0 : lua_gettop(thread_) - 1);
  started_ = true;
  if (status == LUA_YIELD) {
    // Nothing may be popped: an interruption may have suspended it.
    done_ = context.ended_early;
    return !done_;
  }
  done_ = true;
  try {
    if (status != 0) throw_report(report_of(thread_, -1));
    if (lua_toboolean(thread_, 1) == 0) throw_report(report_of(thread_, 2));
  } catch (...) {  // an interruption too
    failure_ = caught_around_lua();
    std::rethrow_exception(failure_);
  }
  return false;
}

void set_up_torch(int threads) {
  if (threads > 0) at::set_num_threads(threads);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Deterministic algorithms would fill every empty tensor with NaN, at the cost of a pass over
  // memory.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

c10::Device recipe_device(const RecipeOptions& options) {
  // Device 0 of the visible ones: the launcher shows each rank its own GPU.
  return c10::Device(options.device == "cpu" ? options.device : options.device + ":0");
}

namespace {

Json config_value(lua_State* L, const char* path) {
  const Json* value = recipe_context(L).config.find(path);
  return value == nullptr ? default_value(path) : *value;
}

}  // namespace

int64_t config_whole(lua_State* L, const char* path) {
  const Json number = config_value(L, path);
  return number.is_null() ? 0 : number.as_int();
}

double config_number(lua_State* L, const char* path) {
  const Json number = config_value(L, path);
  return number.is_null() ? 0 : number.as_double();
}

}  // namespace xrun
