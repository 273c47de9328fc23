// Compares two objectives on one batch, without an update: their gradients are computed one after
// the other.

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/table.h"
#include "core/model/ops/device_memory.h"
#include "core/train/adamw.h"
#include "core/train/batches/batch.h"
#include "core/train/models/policy.h"
#include "core/train/objective_gradient.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/objective_verbs.h"
#include "lua/prompt/paused_run.h"
#include "lua/prompt/prompt_verbs.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// Returns the optimizer of the last step, else the run's first.
AdamW& optimizer_of(PausedRun& paused) {
  if (const auto& last = paused.hooks().last_step().optimizer) return *last;
  const std::vector<std::shared_ptr<AdamW>> all = paused.pause().run->models().optimizers;
  XRUN_CHECK(!all.empty(), "the run was given no optimizer (xrun.run), and no step has run here");
  return *all.front();
}

// Both gradients are held on the host, in fp32.
void check_room(AdamW& adamw) {
  int64_t bytes = 0;
  for (const auto& trainable : adamw.trainables()) {
    for (const Parameter& parameter : trainable->parameters())
      bytes += 2 * parameter.master.numel() * 4;
  }
  const int64_t available = available_bytes();
  XRUN_CHECK(available == 0 || bytes < available,
             "comparing two gradients takes {:.0f} MB of memory, and {:.0f} MB are available",
             static_cast<double>(bytes) / 1e6, static_cast<double>(available) / 1e6);
}

std::string cell(std::optional<double> value) { return value ? format_metric(*value) : "-"; }

// Returns two tables: the metrics of both, "-" where one lacks a metric, and the angles between
// their gradients.
std::string comparison_text(const ObjectiveGradient& first, const ObjectiveGradient& second,
                            const std::vector<GradientAngle>& angles, const std::string names[2],
                            int width) {
  const std::vector<Align> align = {Align::kLeft, Align::kRight, Align::kRight};
  TextTable values({"", names[0], names[1]}, align);
  for (const auto& [name, value] : first.metrics) {
    values.add({name, cell(value), cell(find_metric(second.metrics, name))});
  }
  for (const auto& [name, value] : second.metrics) {
    if (!find_metric(first.metrics, name)) values.add({name, "-", cell(value)});
  }
  TextTable groups({"gradient", "cosine", "norm ratio"}, align);
  for (const GradientAngle& angle : angles) {
    groups.add({angle.group, fmt::format("{:.4f}", angle.cosine), format_metric(angle.norm_ratio)});
  }
  return values.text(width) + "\n" + groups.text(width);
}

}  // namespace

// compare(f, g?): without g, f is compared with the recipe's own objective, which then comes first.
int compare_verb(lua_State* L) {
  PausedRun& paused = paused_run_of(L);
  paused.begin_loop();
  std::string names[2];
  const bool has_second = !lua_isnoneornil(L, 2);
  // An empty index, 3, means the recipe's own objective.
  lua_settop(L, 2);
  const Objective first = objective_at(L, paused, has_second ? 1 : 3, "f", &names[0]);
  const Objective second =
      objective_at(L, paused, has_second ? 2 : 1, has_second ? "g" : "f", &names[1]);
  AdamW& adamw = optimizer_of(paused);
  check_room(adamw);
  const std::shared_ptr<Batch> batch = paused.batch();
  StepOptions options;
  options.poll = [L] { check_interrupt(L); };
  const auto gradient = [&](const Objective& objective) {
    return objective_gradient({{batch.get(), objective}}, adamw, options);
  };
  const ObjectiveGradient a = gradient(first), b = gradient(second);
  const std::vector<GradientAngle> angles = compare_gradients(a, b);
  lua_createtable(L, 0, 4);
  push(L, angles.front().cosine);
  lua_setfield(L, -2, "cosine");
  push(L, angles.front().norm_ratio);
  lua_setfield(L, -2, "norm_ratio");
  push(L, std::make_shared<MetricTable>(MetricTable{a.metrics}));
  lua_setfield(L, -2, "first");
  push(L, std::make_shared<MetricTable>(MetricTable{b.metrics}));
  lua_setfield(L, -2, "second");
  const int width = paused.session().console->traits().width;
  show_as(L, comparison_text(a, b, angles, names, width));
  return 1;
}

}  // namespace xrun
