#pragma once
// The time of a training step, predicted from shapes and the rates of a device.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// A GPU and the links of its machine, from their data sheets. Rates are per GPU and direction.
struct ClusterDevice {
  std::string_view name;
  int64_t memory = 0;    // bytes
  double flops = 0;      // FLOP/s of dense bf16 products
  double bandwidth = 0;  // bytes/s of its memory
  double near_link = 0;  // bytes/s to GPUs of its machine
  double far_link = 0;   // bytes/s to other machines
  int64_t near = 8;      // GPUs of a machine
};

// The devices with a data sheet.
const std::vector<ClusterDevice>& cluster_devices();
// Returns the device with this name. Throws UsageError with the known names.
const ClusterDevice& cluster_device(std::string_view name);

// Shares of the published rates that a step reaches.
struct RateShares {
  double utilisation = 0.4;  // of the peak rate, in products
  double link = 0.8, memory = 0.8;
};

// Bytes of memory that AdamW moves for a weight: it reads and writes master and moments, reads the
// gradient, and writes the copy.
inline constexpr double kUpdateBytes = 28;
// Bytes for a weight whose gradient is added to a sum: two reads and a write.
inline constexpr double kSumBytes = 12;

// FLOP/s of a forward, and of a backward without the blocks that it computes again.
struct PassRates {
  double forward = 0, backward = 0;
};

// The rates of one process in a step.
struct StepRates {
  PassRates blocks, head;
  double micro_s = 0;    // seconds of a micro-batch outside blocks and head: the embedding
  double memory = 0;     // bytes/s of the update and of sums of gradients
  double link = 0;       // bytes/s that it sends to the others
  bool overlaps = true;  // computation hides exchanges; false: the same cores do both
};

// Returns the rates of one of `gpus` GPUs by its data sheet. If they fill more than one machine,
// the link is the slower one between machines.
StepRates published_rates(const ClusterDevice& device, const RateShares& shares, int64_t gpus);
// Returns the bytes/s of that link, without RateShares.
double published_link(const ClusterDevice& device, int64_t gpus);

// FLOPs of one part of a micro-batch.
struct PassWork {
  double forward = 0, backward = 0;
  double frozen = 0;  // forwards of references and teachers
};

struct MicroWork {
  PassWork blocks, head;
};

// The work of a step, over all processes.
struct StepWork {
  std::vector<MicroWork> micros;
  double weights = 0, trained = 0;  // elements
  double frozen = 0;                // elements of references and teachers
  double element = 2;               // bytes of a weight in the compute type
  bool recompute = false;           // blocks are computed again in the backward
};

struct StepForecast {
  double compute_s = 0;   // of the rank with the most work
  double update_s = 0;    // AdamW
  double exchange_s = 0;  // of all that a rank sends
  double exposed_s = 0;   // the part of it that no computation hides
  double sent_bytes = 0;  // by a rank

  double step_s() const { return compute_s + update_s + exposed_s; }
};

// Returns the forecast for `ranks` processes at a dist.level: that of the process with the most
// micro-batches. A process sends (docs/distributed.md):
//   gradients       fp32, after each micro-batch; hidden by that backward and the next forward
//   after a step    fp32; the gradients at level 0, not hidden, or the weights at levels 1 and 2,
//                   hidden by the next forward (at level 2 only the last four buckets of 16 MiB)
//   frozen weights  from level 1 on, once for each micro-batch; hidden by its computation
//   own weights     at level 3, in the compute type, twice for each micro-batch; hidden likewise
StepForecast forecast_step(const StepWork& work, const StepRates& rates, int64_t ranks,
                           int64_t level);

}  // namespace xrun
