#pragma once
// The time of a training step on a cluster, predicted from shapes and published rates.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// A GPU and the links of its machine, by their data sheets. Rates are per GPU and direction.
struct ClusterDevice {
  std::string_view name;
  int64_t memory = 0;    // bytes
  double flops = 0;      // dense bf16 products
  double bandwidth = 0;  // bytes/s of its memory
  double near_link = 0;  // bytes/s to GPUs of its machine
  double far_link = 0;   // bytes/s to other machines
  int64_t near = 8;      // GPUs of a machine
};

// Returns the device of a name. Throws UsageError with the known ones.
const ClusterDevice& cluster_device(std::string_view name);

// FLOPs of a micro-batch.
struct MicroWork {
  double forward = 0, backward = 0;
  double frozen = 0;  // forwards of references and teachers
};

// One step of a run, whole.
struct StepWork {
  std::vector<MicroWork> micros;
  double weights = 0, trained = 0;  // elements
  double element = 2;               // bytes of a weight in the compute type
  bool recompute = false;           // blocks are computed again in the backward
};

struct ForecastTerms {
  int64_t gpus = 1;
  int64_t level = 0;  // dist.level
  // Shares of the published rates that a step reaches.
  double utilisation = 0.4;  // of the peak rate, in products
  double link_share = 0.8, memory_share = 0.8;
};

struct StepForecast {
  double compute_s = 0;   // of the rank with the most work
  double update_s = 0;    // AdamW
  double exchange_s = 0;  // of all that a rank sends
  double exposed_s = 0;   // the part of it that no computation hides
  double sent_bytes = 0;  // by a rank

  double step_s() const { return compute_s + update_s + exposed_s; }
};

// Returns the forecast for the rank with the most micro-batches. A rank sends
// (docs/distributed.md): gradients after each of its micro-batches, while that backward and the
// next forward run; after the update, in fp32, at level 0 the gradients, unhidden, and at levels 1
// and 2 the weights, while the next forward runs (at level 2 only the last four buckets, of 16
// MiB); at level 3 the weights in the compute type, twice for each micro-batch, while it computes.
StepForecast forecast_step(const StepWork& work, const ClusterDevice& device,
                           const ForecastTerms& terms);

}  // namespace xrun
