#pragma once
// Devices of a plan, with published rates or with rates measured on this machine.

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/cost/step_forecast.h"
#include "lua/bind/recipe.h"

namespace xrun {

struct PlannedLoop;

struct PlannedDevice {
  std::string name;    // "h100", "this"
  std::string title;   // "8 h100", "2 processes of 1 thread"
  std::string unit;    // "GPU", "process"
  int64_t memory = 0;  // bytes of each
  bool measured = false;
  StepRates rates;
  std::vector<std::string> assumptions;
};

// Returns GPUs of a model, with the rates of its data sheet multiplied by the shares.
PlannedDevice published_device(const ClusterDevice& device, const RateShares& shares, int64_t gpus);

// Sets device and threads of a recipe that is planned for processes of this machine. The device is
// GPU 0 if runs can use it, after loading the CUDA plug-in, else the CPU, whose threads are divided
// as xrun launch divides them. Throws UsageError for more processes than threads, and for several
// GPUs of a model without a data sheet, whose links are unknown.
void use_this_machine(RecipeOptions& options, int64_t processes);

// Returns the device that use_this_machine has chosen, with rates measured on parts of the loop's
// policy at the shapes of its largest pack.
PlannedDevice measured_device(const PlannedLoop& planned, const RecipeOptions& options,
                              int64_t processes);

}  // namespace xrun
