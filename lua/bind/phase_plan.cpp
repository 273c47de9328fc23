#include "lua/bind/phase_plan.h"

#include "lua/bind/run_loop.h"

namespace xrun {

namespace {

// What a resume compares of a set and of how a loop draws from it.
Json identity_of(const StepSource& source) {
  const DataSet& set = source.data->set;
  const StepPlan& plan = source.plan;
  return Json(Json::Object{{"fingerprint", set.fingerprint()},
                           {"units", set.size()},
                           {"unit", set.unit_name()},
                           {"units_a_step", plan.units},
                           {"window", set.window_length()},
                           {"seed", static_cast<int64_t>(plan.seed)},
                           {"order", static_cast<int64_t>(plan.order.kind)},
                           {"block", plan.order.block},
                           {"window_blocks", plan.order.window}});
}

}  // namespace

PhasePlan phase_plan_of(const StepLoop& loop) {
  PhasePlan plan;
  plan.steps = loop.steps;
  plan.data = identity_of(loop.sources.front());
  for (size_t i = 1; i < loop.sources.size(); ++i) {
    plan.data.set(fmt::format("set {}", i + 1), identity_of(loop.sources[i]));
  }
  return plan;
}

}  // namespace xrun
