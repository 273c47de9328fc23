#pragma once
// The models of a run, with the shapes of their memory plan.

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/cost/memory_plan.h"

namespace xrun {

class AdamW;
class FrozenModel;
class Policy;
class Reference;
class SessionModels;
struct StepLoop;
struct StepSizes;

// The models of a run.
struct RunModels {
  std::vector<std::shared_ptr<Policy>> policies;  // each once, those it saves first
  std::vector<std::shared_ptr<AdamW>> optimizers;
  std::vector<std::shared_ptr<Reference>> references = {};
  std::vector<std::shared_ptr<FrozenModel>> frozen = {};
  // The loss of the configuration's settings of xrun.kd; "" if they name none; nullopt without
  // them.
  std::optional<std::string> kd_loss = {};
  bool kd_support = false;  // that loss keeps gradients of the logits at a few columns only
};

// Returns the models with all that the recipe has opened, saved by the run or not.
RunModels with_session_models(RunModels models, const SessionModels& session);

// Returns the device of the first policy, or the CPU without one. All models of a run share a
// device.
c10::Device device_of(const std::vector<std::shared_ptr<Policy>>& policies);

// Returns true if a reference's twin counts.
using CountsTwin = std::function<bool(Reference&)>;
// Returns true if a frozen model counts.
using CountsFrozen = std::function<bool(const FrozenModel&)>;

// Returns the models of a step with the shapes of its memory plan on a device, which need not be
// theirs, with the twins and frozen models that count. Loads and checks nothing.
std::vector<PlannedModel> planned_models(const RunModels& models, const StepSizes& sizes,
                                         c10::Device device, const CountsTwin& counts,
                                         const CountsFrozen& counts_frozen);

// The same for a loop; the twin of every reference and every frozen model count.
std::vector<PlannedModel> planned_models(const RunModels& models, const StepLoop& loop,
                                         c10::Device device);

}  // namespace xrun
