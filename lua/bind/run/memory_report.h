#pragma once
// The memory of a run on its device: planned before it loads and before it trains, then measured.

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/model/cost/memory_plan.h"

namespace xrun {

class AdamW;
class FrozenModel;
class Policy;
class Reference;
class SessionModels;
struct StepLoop;

// The models of a run.
struct RunModels {
  std::vector<std::shared_ptr<Policy>> policies;  // each once; first those it saves
  std::vector<std::shared_ptr<AdamW>> optimizers;
  std::vector<std::shared_ptr<Reference>> references = {};
  std::vector<std::shared_ptr<FrozenModel>> frozen = {};
  // The configuration's settings of xrun.kd; its loss is "" where they name none.
  std::optional<std::string> kd_loss = {};
  bool kd_support = false;  // it keeps gradients of the logits at a few columns alone
};

// Returns the models with all that the recipe has opened, saved by the run or not.
RunModels with_session_models(RunModels models, const SessionModels& session);

// The device of the first; the CPU without one. All models of a run are on one device.
c10::Device device_of(const std::vector<std::shared_ptr<Policy>>& policies);

// Throws Error as check_memory does if weights, gradients and optimizers exceed the memory
// for any batch size. Loads nothing.
void check_before_load(const RunModels& models);

// Returns the models of a loop with the shapes of its memory plan on a device, which need not be
// theirs, the twin of every reference and every frozen model included. Loads and checks nothing.
std::vector<PlannedModel> planned_models(const RunModels& models, const StepLoop& loop,
                                         c10::Device device);

// The plan of a run's models over one loop. The largest micro-batch is found by the lengths of
// rows: of every step, or of a sample if there are too many. Every optimizer counts, whichever loop
// uses it, and with several the copy of the state that a body with several updates begins with. A
// reference's twin counts in the reported plan if it is loaded or its sidecar lacks a value that
// the steps will need, and in the check only if it is loaded. A frozen model counts in the plan,
// and in the check unless stored rows may take its place. With settings of xrun.kd it is taken for
// the teacher of one such loss.
class MemoryReport {
 public:
  // Makes a plan and resets the measurement. Throws Error as check_memory does.
  static MemoryReport plan(const RunModels& models, const StepLoop& loop);

  const std::vector<MemoryKind>& planned() const { return planned_; }
  // "32 MB of tensors: activations 22 MB, ...; the program itself takes 180 MB", the latter as
  // measured when the plan was made; of a GPU without it.
  std::string text() const;
  // Records the peak of tensor memory since the plan was made.
  void measure();
  int64_t measured() const { return measured_; }  // bytes; 0 before measure()
  c10::Device device() const { return device_; }  // the device that is measured
  // {"planned": {"total", kinds}, "measured": {"total", "weights", "rest", "rss"}}, in bytes; the
  // second only once it is measured.
  Json to_json() const;
  // The planned kinds without frozen models, which a rank loads only if its rows need them: the
  // same on every rank.
  Json shared_json() const { return shared_; }

 private:
  std::vector<MemoryKind> planned_;
  Json shared_;
  c10::Device device_ = c10::kCPU;
  int64_t weights_ = 0;  // of the policies, as they are
  int64_t program_ = 0;  // resident bytes that are not tensors
  int64_t measured_ = 0, resident_ = 0;
};

}  // namespace xrun
