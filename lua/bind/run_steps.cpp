// run:steps: the loop of a recipe. One loop is walked at a time; a loop that was left by `break` is
// over, one that is still being walked may not hold another.

#include "core/base/error.h"
#include "lua/bind/args.h"
#include "lua/bind/field_check.h"
#include "lua/bind/run_loop.h"
#include "lua/bind/run_methods.h"

namespace xrun {

namespace {

// The loop at a stack index, if it is one other than `own`.
bool is_other_loop(lua_State* L, int i, const StepLoop* own) {
  if (class_of(L, i) != &class_info<StepLoop>) return false;
  return arg<std::shared_ptr<StepLoop>>(L, i).get() != own;
}

// Whether a `for` over another loop is under way in a function on the stack: what it walks over is
// a local of that function while, and only while, its body runs.
bool inside_another_loop(lua_State* L, const StepLoop* own) {
  const StackGuard guard(L);
  lua_Debug frame{};
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    int n = 1;
    while (const char* name = lua_getlocal(L, &frame, n++)) {
      const bool walked = std::string_view(name) == "(for state)";
      if (walked && is_other_loop(L, lua_gettop(L), own)) return true;
      lua_pop(L, 1);
    }
  }
  return false;
}

// The iterator of `for step, batch in run:steps(...)`: called with the StepLoop.
int next_step(lua_State* L) {
  const auto loop = arg<std::shared_ptr<StepLoop>>(L, 1, "steps");
  RunLoop& run = *session_of(L).run;
  XRUN_CHECK(loop->begun || !inside_another_loop(L, loop.get()),
             "a loop inside a body of another loop; end the first one, or give adamw:step a list "
             "of {{ batch, objective }}");
  lua_gc(L, LUA_GCCOLLECT, 0);  // handles of the body before; outside the step's hot part
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

}  // namespace

int run_steps(RunLoop&, lua_State* L) {
  auto loop = std::make_shared<StepLoop>();
  loop->data = arg<std::shared_ptr<PreferenceData>>(L, 2, "data");
  const Options batch(L, 3,
                      {"pairs", "sequences", "prompts", "tokens", "max_tokens", "steps", "epochs"});
  if (lua_istable(L, 3)) check_batch_fields(to_json(L, 3));
  XRUN_CHECK(batch.has("pairs"),
             "batch.pairs is missing; pairs are counted in pairs: write batch = {{ pairs = 8 }}");
  loop->plan.pairs = batch.get<int64_t>("pairs");
  loop->max_tokens = batch.get<int64_t>("max_tokens", 8192);
  loop->plan.shuffle = loop->data->shuffle;
  loop->plan.seed = loop->data->seed;
  read_length(L, batch, *loop);
  push_function(L,
                {"run:steps", DocKind::kMetamethod, "(loop) -> step, Batch",
                 "Ends the body before and opens the next; nil where the loop ends."},
                next_step);
  push(L, std::move(loop));
  return 2;
}

}  // namespace xrun
