// run:steps: the loop of a recipe. One loop is walked at a time; a loop that was left by `break` is
// over, one that is still being walked may not hold another.

#include "core/base/count_text.h"
#include "core/base/error.h"
#include "core/data/ledger.h"
#include "lua/bind/args.h"
#include "lua/bind/field_check.h"
#include "lua/bind/run_loop.h"
#include "lua/bind/run_methods.h"

namespace xrun {

namespace {

// Calls `each` with the name and the loop of every local that holds one. What a `for` walks over is
// a local, "(for state)", of its function while, and only while, its body runs. Returns whether one
// call returned true.
template <typename Each>
bool any_local_loop(lua_State* L, const Each& each) {
  const StackGuard guard(L);
  lua_Debug frame{};
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    int n = 1;
    while (const char* name = lua_getlocal(L, &frame, n++)) {
      const int value = lua_gettop(L);
      const bool loop = class_of(L, value) == &class_info<StepLoop>;
      if (loop && each(std::string_view(name), *arg<std::shared_ptr<StepLoop>>(L, value))) {
        return true;
      }
      lua_pop(L, 1);
    }
  }
  return false;
}

bool inside_another_loop(lua_State* L, const StepLoop& own) {
  return any_local_loop(L, [&](std::string_view name, const StepLoop& loop) {
    return name == "(for state)" && &loop != &own;
  });
}

// The iterator of `for step, batch in run:steps(...)`: called with the StepLoop.
int next_step(lua_State* L) {
  const auto loop = arg<std::shared_ptr<StepLoop>>(L, 1, "steps");
  RunLoop& run = *session_of(L).run;
  XRUN_CHECK(loop->begun || !inside_another_loop(L, *loop),
             "a loop inside a body of another loop; end the first one, or give adamw:step a list "
             "of {{ batch, objective }}");
  lua_gc(L, LUA_GCCOLLECT, 0);  // handles of the body before; outside the step's hot part
  loop->thread = L;
  const std::optional<Body> body = run.next(*loop, run.read_state());
  // Part 1 is what follows the loop: whether its bodies ran or were skipped by a resume.
  run.seed_random(L, body ? 0 : 1);
  if (!body) {
    lua_pushnil(L);
    return 1;
  }
  push(L, body->step);
  push(L, loop->batch);
  return 2;
}

// Steps of a loop by `steps` or `epochs`, the loop's own or the configuration's.
void read_length(lua_State* L, const Options& batch, StepLoop& loop) {
  loop.plan.epochs = batch.get<int64_t>("epochs", config_whole(L, "epochs", 1));
  const int64_t limit = batch.get<int64_t>("steps", config_whole(L, "steps", 0));
  if (limit > 0) {
    loop.plan.epochs = 0;
    const std::string origin = recipe_context(L).config.origin("epochs");
    if (!origin.empty() && origin != "default") {
      session_of(L).notices.push_back(
          fmt::format("steps = {} decides the length; epochs ({}) is not used", limit, origin));
    }
  }
  XRUN_CHECK(loop.data->set.size() > 0, "the set has no rows; nothing can be trained");
  loop.steps = limit > 0 ? limit : loop.data->set.steps_total(loop.plan);
}

// Units a step by the one of pairs, sequences, prompts and tokens that fits the rows. Tokens cut
// the set into windows of max_length, so that a step has as many windows as they make.
void read_units(lua_State* L, const Options& batch, const BatchSizes& sizes, StepLoop& loop) {
  DataSet& set = loop.data->set;
  if (sizes.tokens > 0) {
    set = windows_of(*loop.data, sizes);
    const int64_t window = set.window_length();
    loop.plan.units = sizes.tokens / window;
    if (sizes.tokens % window != 0) {
      session_of(L).notices.push_back(fmt::format("batch.tokens = {} is {} windows of {} tokens",
                                                  count_text(sizes.tokens), loop.plan.units,
                                                  count_text(window)));
    }
    return;
  }
  const std::string unit = std::string(set.unit_name()) + "s";
  for (const char* other : {"pairs", "sequences", "prompts"}) {
    XRUN_CHECK(other == unit || !batch.has(other),
               "batch.{} does not fit {} rows, which are counted in {}: write batch = {{ {} = 8 }}",
               other, row_kind_name(set.kind()), unit, unit);
  }
  XRUN_CHECK(batch.has(unit.c_str()),
             "batch.{0} is missing; {1} rows are counted in {0}: write batch = {{ {0} = 8 }}", unit,
             row_kind_name(set.kind()));
  loop.plan.units = batch.get<int64_t>(unit.c_str());
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
  loop->data = std::make_shared<DataHandle>(*arg<std::shared_ptr<DataHandle>>(L, 2, "data"));
  const Options batch(L, 3,
                      {"pairs", "sequences", "prompts", "tokens", "max_tokens", "steps", "epochs"});
  if (lua_istable(L, 3)) check_batch_fields(to_json(L, 3));
  BatchSizes sizes;
  sizes.tokens = batch.get<int64_t>("tokens", sizes.tokens);
  sizes.max_tokens = batch.get<int64_t>("max_tokens", sizes.max_tokens);
  run.set_sizes(sizes);
  loop->max_tokens = sizes.max_tokens;
  loop->plan.order = loop->data->order;
  loop->plan.seed = loop->data->seed;
  read_units(L, batch, sizes, *loop);
  read_length(L, batch, *loop);
  push_function(L,
                {"run:steps", DocKind::kMetamethod, "(loop) -> step, Batch",
                 "Ends the body before and opens the next; nil where the loop ends."},
                next_step);
  push(L, std::move(loop));
  return 2;
}

}  // namespace xrun
