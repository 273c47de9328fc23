#include "lua/prompt/rows_verb.h"

#include "core/base/error.h"
#include "core/console/terminal/progress.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batch.h"
#include "core/train/evaluate.h"
#include "core/train/extreme_rows.h"
#include "core/train/policy.h"
#include "lua/bind/objective.h"
#include "lua/bind/run_loop.h"
#include "lua/prompt/named_objective.h"
#include "lua/prompt/shown_table.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// rows{ by = "margin", n = 10, of = valid, objective = dpo, highest = false }
int rows_verb(lua_State* L) {
  Stepper& stepper = stepper_of(L);
  const Options options(L, 1);
  const std::string by = options.get<std::string>("by", "loss");
  const int64_t most = options.get<int64_t>("n", 10);
  XRUN_CHECK(most > 0, "n is {}, wanted a number of rows above 0", most);
  stepper.begin_loop();
  const LoopPause& at = stepper.pause();
  std::string name;
  options.has("objective") ? options.push_value("objective") : push_objective(L, stepper, &name);
  const Objective objective = lua_objective(L, lua_gettop(L), "objective");
  auto data = at.loop->sources.front().data;
  if (options.has("of")) data = options.get<std::shared_ptr<DataHandle>>("of");
  const Tokenizer* tokenizer = data->policy == nullptr ? nullptr : data->policy->tokenizer().get();
  // Of losses the high ones are suspicious, of margins and the like the low ones.
  ExtremeRows rows(by, most, options.get<bool>("highest", by == "loss"), tokenizer);
  const Objective listing = [&](MicroBatch& micro) {
    ObjectiveResult result = objective(micro);
    check_result(result, micro);
    rows.add(result, micro);
    return result;
  };
  TaskProgress progress(*stepper.session().console, "looking at rows", "rows");
  EvaluateOptions evaluation;
  evaluation.poll = [&] {
    check_interrupt(L);
    progress.update(rows.seen(), options.has("of") ? data->set.size() : 0);
  };
  evaluation.seed = at.run->seed();
  evaluation.step = at.step;
  evaluation.device = at.run->device();
  if (options.has("of")) {
    evaluation.kept = data->kept.get();
    data->set.check_fits(at.loop->max_tokens);
    evaluate(data->set, at.loop->max_tokens, listing, evaluation);
  } else {
    std::shared_ptr<Batch> batch = stepper.batch();
    evaluate([&] { return std::exchange(batch, nullptr); }, listing, evaluation);
  }
  push_rows(L, rows.rows(),
            fmt::format("{}{} of {} rows", by, name.empty() ? "" : " of " + name, rows.seen()));
  return 1;
}

}  // namespace

const PromptVerb kRowsVerb = {
    "rows",
    {{"options?", "table", {"by", "n", "of", "objective", "highest"}}},
    {"table"},
    "The n (10) rows of the batch in hand, or of the set `of`, that lie furthest out by a metric "
    "of the objective or its loss: the lowest, of a loss the highest. Each is { value, row, "
    "text, rejected }: file and line, and the first tokens that are trained.",
    rows_verb};

}  // namespace xrun
