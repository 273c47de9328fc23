// run:evaluate and run:choices. A resume repeats calls outside loops with the weights of a later
// step, so their first results are saved with the run and returned instead.

#include <algorithm>
#include <exception>

#include "core/base/error.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/console/terminal/progress.h"
#include "core/train/evaluate.h"
#include "core/train/models/policy.h"
#include "lua/bind/data/choices.h"
#include "lua/bind/data/data_config.h"
#include "lua/bind/objective.h"
#include "lua/bind/run/run_loop.h"
#include "lua/state/args.h"

namespace xrun {

int push_measured(RunLoop& loop, lua_State* L, const std::string& what,
                  const std::function<Metrics(int64_t number)>& measure) {
  leave_broken_loop(loop, L);
  loop.write_ledger();
  Run& run = loop.run();
  const int64_t number = loop.next_evaluation();
  Metrics values;
  if (run.replaying()) {
    values = run.recall(what);
  } else {
    const RandomScope random;
    loop.seed_random(L, 2 + 2 * number);
    const auto begin = SteadyClock::now();
    try {
      values = measure(number);
    } catch (const std::exception&) {
      loop.forget_evaluation();
      throw;
    }
    loop.report().add_measuring(seconds_since(begin));
    run.remember(what, values);
  }
  loop.seed_lua(L, 3 + 2 * number);
  push(L, std::make_shared<MetricTable>(MetricTable{std::move(values)}));
  return 1;
}

namespace {

// Saves the whole rows of a non-finite loss and reports the file.
[[noreturn]] void save_and_rethrow(RunLoop& run, const DataSet& set, const NonFiniteLoss& error) {
  int64_t longest = 0;
  for (const int64_t row : error.rows()) longest = std::max(longest, set.tokens(row));
  const std::vector<PackedBatch> packs = set.pack(error.rows(), longest);
  std::vector<const PackedBatch*> views;
  for (const PackedBatch& pack : packs) views.push_back(&pack);
  run.throw_with_batch(error, views, [&](int64_t row) { return set.location(row); });
}

// A set is measured in the windows and micro-batches that the run trains in.
Metrics measure(RunLoop& run, lua_State* L, const DataHandle& data, const Objective& objective,
                int64_t number) {
  EvaluateOptions options;
  int64_t total = 0;
  TaskProgress progress(*run.session().console, "evaluating " + data.name, "tokens");
  options.poll = [&](int64_t tokens) {
    check_stop(L);
    progress.update(tokens, total);
  };
  options.ranks = session_ranks(L);
  if (!run.policies().empty()) options.policy = run.policies()[0].get();
  options.seed = run.seed();
  options.step = run.run().step();
  options.number = number;
  options.extra = data.extra.get();
  options.device = run.device();
  const BatchSizes sizes = run.sizes().value_or(config_sizes(L));
  const DataSet set = cuts_windows(data.set.kind(), sizes) ? windows_of(data, sizes) : data.set;
  options.fold = sizes.fold;
  options.tokenizer = data.tokenizer();
  set.check_fits(pack_limits(sizes.max_tokens, sizes.fold));
  const int64_t window = set.window_length();
  for (int64_t u = 0; u < set.size(); ++u) total += window > 0 ? window : set.tokens(set.unit(u));
  try {
    return evaluate(set, sizes.max_tokens, objective, options);
  } catch (const NonFiniteLoss& error) {
    save_and_rethrow(run, data.set, error);
  }
}

// A set may be empty on purpose (a split by 0). One with rows should have been measured.
void say_unmeasured(RunLoop& run, const DataHandle& data, const std::string& prefix) {
  const int64_t rows = data.set.size();
  if (rows == 0) return;
  run.session().console->print_escaped(fmt::format(
      "{}: nothing was measured, so there are no metrics: no trained token of its {} ({}{}) has a "
      "weight above 0; prompts without answers, labels of -100 and rows of weight 0 are not "
      "trained",
      prefix.substr(0, prefix.size() - 1), counted(rows, "row"),
      data.set.location(data.set.unit(0)), rows == 1 ? "" : ", ..."));
}

}  // namespace

int run_evaluate(RunLoop& run, lua_State* L) {
  const auto data = arg<std::shared_ptr<DataHandle>>(L, 2, "set");
  const Objective objective = lua_objective(L, 3);
  const std::string name = opt_arg<std::string>(L, 4, "name").value_or("");
  const std::string prefix = name.empty() ? "valid/" : "valid/" + name + "/";
  return push_measured(run, L, "evaluate " + name, [&](int64_t number) {
    const Metrics metrics = measure(run, L, *data, objective, number);
    if (metrics.empty()) say_unmeasured(run, *data, prefix);
    return with_prefix(metrics, prefix).values;
  });
}

int run_choices(RunLoop& run, lua_State* L) {
  const auto policy = arg<std::shared_ptr<Policy>>(L, 2, "policy");
  const auto data = arg<std::shared_ptr<DataHandle>>(L, 3, "set");
  const std::string name = opt_arg<std::string>(L, 4, "name").value_or("");
  const std::filesystem::path file = choices_file(run.run().dir().path(), name, run.run().step());
  return push_measured(run, L, "choices " + name, [&](int64_t) {
    return with_prefix(measure_choices(L, *policy, *data, file),
                       name.empty() ? "choices/" : "choices/" + name + "/")
        .values;
  });
}

}  // namespace xrun
