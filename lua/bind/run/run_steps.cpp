// run:steps, the loop of a recipe. Loops do not nest: one that was left by `break` has ended.

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/config/config_set.h"
#include "core/data/rows/ledger.h"
#include "lua/bind/run/run_loop.h"
#include "lua/bind/run/step_units.h"
#include "lua/bind/run_hooks.h"
#include "lua/state/args.h"
#include "lua/state/frame_locals.h"

namespace xrun {

namespace {

// Calls `each` with the name and the loop of every local that holds one, until it returns true;
// returns that. The loop of a `for` is the local "(for state)" of its function exactly while its
// body runs.
template <typename Each>
bool any_local_loop(lua_State* L, const Each& each) {
  return any_local(L, [&](std::string_view name, int value) {
    return class_of(L, value) == &class_info<StepLoop> &&
           each(name, *arg<std::shared_ptr<StepLoop>>(L, value));
  });
}

bool inside_another_loop(lua_State* L, const StepLoop& own) {
  return any_local_loop(L, [&](std::string_view name, const StepLoop& loop) {
    return name == "(for state)" && &loop != &own;
  });
}

// Ends the previous body. Pushes true if the recipe is to pause here.
int end_step(lua_State* L, const std::shared_ptr<StepLoop>& loop) {
  RunLoop& run = *session_of(L).run;
  check_config_unchanged(L);
  XRUN_CHECK(loop->begun || !inside_another_loop(L, *loop),
             "a loop inside a body of another loop; end the first one, or give adamw:step a list "
             "of {{ batch, objective }}");
  lua_gc(L, LUA_GCCOLLECT, 0);  // handles of the previous body; outside the step's hot part
  loop->thread = L;
  if (!loop->begun) loop->first_step = run.run().step();
  RunHooks* const hooks = run_hooks(L);
  if (hooks == nullptr && !loop->ended) run.end_body(*loop, run.read_state());
  push(L, hooks != nullptr && hooks->between_bodies(L, loop));
  return 1;
}

// Opens the next body. Pushes its step and a batch of each set.
int next_step(lua_State* L, const std::shared_ptr<StepLoop>& loop) {
  RunLoop& run = *session_of(L).run;
  const std::optional<LoopBody> body =
      loop->ended ? std::nullopt : run.next(*loop, run.read_state());
  // Stream 1 seeds the code after the loop, the same whether its bodies ran or a resume skipped
  // them.
  run.seed_random(L, body ? 0 : 1);
  if (!body) {
    lua_pushnil(L);
    return 1;
  }
  push(L, body->step);
  for (const StepSource& source : loop->sources) push(L, source.batch);
  return 1 + static_cast<int>(loop->sources.size());
}

// Called with the StepLoop of `for step, batch in run:steps(...)`, and true to end a body.
int walk(lua_State* L) {
  const auto loop = arg<std::shared_ptr<StepLoop>>(L, 1, "steps");
  session_of(L).run->current_loop = loop;
  return lua_toboolean(L, 2) != 0 ? end_step(L, loop) : next_step(L, loop);
}

// The iterator is in Lua, so that the recipe's coroutine can be suspended between two bodies.
constexpr std::string_view kIterator =
    "local walk, yield = ... "
    "return function(loop) while walk(loop, true) do yield() end return walk(loop, false) end";

void push_iterator(lua_State* L) {
  push_builtin_text(L, kIterator, "=run:steps");
  push_function(
      L,
      {"run:steps",
       DocKind::kMetamethod,
       {{"loop", "StepLoop"}},
       {"integer", "Batch"},
       "Ends the previous body and opens the next, with a batch of each set; nil where the "
       "loop ends."},
      walk);
  lua_pushcfunction(L, [](lua_State* thread) { return lua_yield(thread, 0); });
  lua_call(L, 2, 1);
}

// Reports that the recipe's steps or epochs have no effect, because the other one decides.
void report_ignored_length(lua_State* L, int64_t steps, int64_t epochs) {
  const RecipeContext& context = recipe_context(L);
  const char* const used = steps > 0 ? "steps" : "epochs";
  const char* const ignored = steps > 0 ? "epochs" : "steps";
  const Literal* written = context.text.config.find(ignored);
  // The later of two settings replaces the other, whose origin is then the default.
  const auto& sets = context.options.sets;
  const bool both_set = std::any_of(sets.begin(), sets.end(), [&](const std::string& set) {
    return set.starts_with(std::string(ignored) + "=");
  });
  if (written == nullptr && !both_set) return;
  const std::string origin = context.config.origin(used);
  session_of(L).notices.add(
      fmt::format("{} = {}{} decides the length; {} ({}) is not used", used,
                  steps > 0 ? steps : epochs, origin == "--set" ? " (--set)" : "", ignored,
                  both_set ? "--set" : literal_origin(context.text, *written)));
}

// Throws Error if the quotas of a set's sources end before the loop.
void check_quotas(const StepSource& source, int64_t steps) {
  const std::optional<int64_t> rows = source.data->set.stream_length(source.plan);
  if (!rows || steps <= source.data->set.steps_total(source.plan)) return;
  throw UsageError(fmt::format(
      "{} of {} take {}, but the data quotas give only {}: raise a quota, or set steps to at most {}",
      counted(steps, "step"), size_text(source.plan, steps, source.data->set.unit_name()),
      count_text(source.plan.units_before(steps)), count_text(*rows),
      source.data->set.steps_total(source.plan)));
}

// Reads the length of a loop from `steps` or `epochs`, its own or the configuration's.
void read_length(lua_State* L, const Options& batch, StepLoop& loop) {
  StepSource& first = loop.sources.front();
  first.plan.epochs = batch.get<int64_t>("epochs", config_whole(L, "epochs"));
  const int64_t limit = batch.get<int64_t>("steps", config_whole(L, "steps"));
  if (!batch.has("steps") && !batch.has("epochs")) {
    report_ignored_length(L, limit, first.plan.epochs);
  }
  if (limit > 0 && batch.has("epochs")) {
    session_of(L).notices.add(
        fmt::format("steps = {} decides the length; run:steps' epochs = {} is not used", limit,
                    first.plan.epochs));
  }
  if (limit > 0) first.plan.epochs = 0;
  for (size_t i = 0; i < loop.sources.size(); ++i) {
    if (i > 0) loop.sources[i].plan.epochs = 0;  // repeats as often as the first set needs
    const std::string which =
        loop.sources.size() == 1 ? "the set" : fmt::format("set {} of run:steps", i + 1);
    XRUN_CHECK(loop.sources[i].data->set.size() > 0, "{} has no rows; nothing can be trained",
               which);
  }
  loop.steps = limit > 0 ? limit : first.data->set.steps_total(first.plan);
  for (const StepSource& source : loop.sources) check_quotas(source, loop.steps);
}

// Reports the changes of batch.schedule that the loop does not reach.
void report_late_changes(lua_State* L, const StepLoop& loop) {
  for (const StepSource& source : loop.sources) {
    const int64_t window = std::max<int64_t>(source.data->set.window_length(), 1);
    for (const SizeChange& change : source.plan.changes) {
      if (change.step < loop.steps) continue;
      session_of(L).notices.add(fmt::format(
          "batch.schedule: the change to {} at step {} has no effect, since the loop has {}",
          count_text(change.units * window), count_text(change.step), counted(loop.steps, "step")));
    }
  }
}

void add_source(lua_State* L, int i, const char* what, StepLoop& loop) {
  StepSource source;
  if (class_of(L, i) == &class_info<RolloutSource>) {
    source.rollouts = arg<std::shared_ptr<RolloutSource>>(L, i, what);
    source.answers = source.rollouts->answers;
  }
  source.data = std::make_shared<DataHandle>(
      source.rollouts ? *source.rollouts->prompts : *arg<std::shared_ptr<DataHandle>>(L, i, what));
  if (source.data->set.kind() == RowKind::kPrompts && !source.answers) {
    source.answers = configured_answers(L);
  }
  source.plan.order = source.data->order;
  source.plan.seed = source.data->seed;
  loop.sources.push_back(std::move(source));
}

// One set, or a list of them.
void read_sources(lua_State* L, StepLoop& loop) {
  if (!lua_istable(L, 2)) return add_source(L, 2, "data", loop);
  const int count = static_cast<int>(lua_objlen(L, 2));
  for (int k = 1; k <= count; ++k) {
    lua_rawgeti(L, 2, k);
    add_source(L, lua_gettop(L), fmt::format("set {}", k).c_str(), loop);
    lua_pop(L, 1);
  }
  XRUN_CHECK(count > 0, "the list of sets is empty; wanted {{ set, other_set }}");
}

}  // namespace

void leave_broken_loop(RunLoop& run, lua_State* L) {
  const StepLoop* open = run.open_loop();
  // Another coroutine does not see the frame of the `for`.
  if (open == nullptr || open->thread != L) return;
  // A recipe may also hold the loop itself and call its iterator.
  const auto is_open = [&](std::string_view, const StepLoop& loop) { return &loop == open; };
  if (any_local_loop(L, is_open)) return;
  run.leave_loop(run.read_state());
  run.seed_random(L, 1);
}

int run_steps(RunLoop& run, lua_State* L) {
  auto loop = std::make_shared<StepLoop>();
  loop->ranks = run.run().settings().ranks;
  read_sources(L, *loop);
  const Options batch(L, 3);
  if (lua_istable(L, 3)) check_batch_fields(to_json(L, 3));
  BatchSizes sizes;
  sizes.tokens = batch.get<int64_t>("tokens", 0);
  sizes.max_tokens = batch.get<int64_t>("max_tokens", default_value("batch.max_tokens").as_int());
  sizes.fold = fold_of_run(run, read_fold(lua_istable(L, 3) ? to_json(L, 3) : Json::object()));
  sizes.fold.max_tokens = sizes.max_tokens;
  run.set_sizes(sizes);
  loop->max_tokens = sizes.max_tokens;
  loop->fold = sizes.fold;
  loop->fold_check = batch.get<int64_t>("fold_check", default_value("batch.fold_check").as_int());
  read_all_units(L, batch, sizes, *loop);
  read_length(L, batch, *loop);
  report_late_changes(L, *loop);
  push_iterator(L);
  push(L, std::move(loop));
  return 2;
}

}  // namespace xrun
