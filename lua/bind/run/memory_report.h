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

// The memory of a run's models over one loop: planned, then measured. The lengths of rows give the
// largest micro-batch of all steps, or of a sample if there are too many. Two plans are made: one
// is reported, the other must fit the memory (check_memory). They count
//   optimizer         all, whichever loop uses them; if several, the reported plan adds the copy of
//                     the state that a body with several updates begins with
//   reference's twin  reported if it is loaded or its sidecar lacks a value that the steps need;
//                     checked only if it is loaded
//   frozen model      reported; checked unless stored rows may replace it
// With settings of xrun.kd each frozen model is planned as the teacher of one such loss.
class MemoryReport {
 public:
  // Makes a plan and resets the measurement. Throws Error as check_memory does.
  static MemoryReport plan(const RunModels& models, const StepLoop& loop);

  const std::vector<MemoryKind>& planned() const { return planned_; }
  // Returns "32 MB of tensors: activations 22 MB, ...; the program itself takes 180 MB". The latter
  // was measured when the plan was made, and is left out for a GPU.
  std::string text() const;
  // Records the peak of tensor memory since the plan was made.
  void measure();
  int64_t measured() const { return measured_; }  // bytes; 0 before measure()
  c10::Device device() const { return device_; }  // the device that is measured
  // Returns {"planned": {"total", kinds}, "measured": {"total", "weights", "rest", "rss"}}, in
  // bytes; "measured" only after measure().
  Json to_json() const;
  // Returns the part of the plan that is the same on every rank: without twins and frozen models,
  // which a rank loads only if its rows need them.
  Json shared_json() const { return shared_; }

 private:
  std::vector<MemoryKind> planned_;
  Json shared_;
  c10::Device device_ = c10::kCPU;
  int64_t weights_ = 0;  // that the policies held when the plan was made
  int64_t program_ = 0;  // resident bytes that are not tensors
  int64_t measured_ = 0, resident_ = 0;
};

}  // namespace xrun
