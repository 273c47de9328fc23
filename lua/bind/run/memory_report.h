#pragma once
// The memory of a run on its device: planned before it loads and before it trains, then measured.

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/model/cost/memory_plan.h"
#include "lua/bind/run/planned_models.h"

namespace xrun {

// Throws Error as check_memory does if weights, gradients and optimizers exceed the memory
// for any batch size. Loads nothing.
void check_before_load(const RunModels& models);

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
