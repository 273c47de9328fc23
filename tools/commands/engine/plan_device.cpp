// Published rates are multiplied by the shares that a step reaches; measured rates are not.

#include "tools/commands/engine/plan_device.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/dist/link_rate.h"
#include "core/model/cost/measured_rates.h"
#include "core/model/ops/device.h"
#include "core/model/ops/device_memory.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/batches/unit.h"
#include "tools/commands/engine/cuda_plugin.h"
#include "tools/commands/engine/plan_loop.h"

namespace xrun {

namespace {

constexpr const char* kEveryRow =
    "references and teachers compute every row of a step once; the first steps of a run compute "
    "rows of later steps too";
constexpr const char* kHidden =
    "a backward and the step's next forward hide gradients; the next step's first forward hides "
    "the weights that level 1 sends after an update, and of level 2 the last four buckets, 16 MiB "
    "each; nothing hides the gradients that level 0 gathers";

constexpr double kAssumedLoopback = 1e9;  // bytes/s

// "151 GFLOP/s", "390 TFLOP/s"
std::string flops_text(double flops) {
  return flops < 1e12 ? fmt::format("{:.3g} GFLOP/s", flops / 1e9)
                      : fmt::format("{:.3g} TFLOP/s", flops / 1e12);
}

// Returns the data sheet of a GPU, by its name; null if its model has none.
const ClusterDevice* sheet_of(const std::string& gpu) {
  const std::string name = lower_case(gpu);
  for (const ClusterDevice& device : cluster_devices()) {
    if (name.find(device.name) != std::string::npos) return &device;
  }
  return nullptr;
}

// Returns the largest pack of the loop, as a step computes it.
TimedPack timed_pack(const PlannedLoop& planned, c10::Device device) {
  const ComputedPack pack = computed_pack(
      planned.pack, planned.fold, frequency_classes(planned.pack, planned.policy.config), device);
  if (pack.fold) return {pack.input, pack.edge_target};
  return {pack.input, on_device(int64_tensor(planned.pack.rows.target), device)};
}

StepRates rates_here(const PlannedLoop& planned, c10::Device device) {
  const MemoryShape& shape = planned.policy.shape;
  LoadOptions options{
      .dtype = shape.dtype, .gemm = shape.gemm, .trainable = true, .device = device};
  if (shape.adapter) {
    auto adapter = std::make_shared<Adapter>();
    adapter->options = *shape.adapter;
    options.adapter = std::move(adapter);
  }
  return measure_rates(planned.policy.config, options, timed_pack(planned, device));
}

// Sets the rate of links to other processes of this machine. Returns a sentence on its source.
std::string set_link(StepRates& rates, c10::Device device, int64_t processes) {
  if (device.is_cpu()) {
    rates.link = time_loopback(processes);
    rates.overlaps = false;
    return fmt::format(
        "a process sends {}/s over loopback, measured; it exchanges on the cores "
        "that compute, so nothing hides it",
        format_bytes(rates.link));
  }
  const RateShares shares;
  const ClusterDevice& sheet = *sheet_of(read_cuda_driver().name);
  rates.link = shares.link * published_link(sheet, processes);
  return fmt::format(
      "links reach {:.0f} % of the {:.0f} GB/s of the data sheet of an {}, not "
      "measured; {}",
      100 * shares.link, published_link(sheet, processes) / 1e9, sheet.name, kHidden);
}

std::string measured_text(const StepRates& rates, const MemoryShape& shape) {
  return fmt::format(
      "measured here, in {}: blocks {} forward and {} backward, head {} and {}, {:.3g} ms for the "
      "embedding of a micro-batch, {}/s of memory in the update",
      dtype_name(shape.dtype), flops_text(rates.blocks.forward), flops_text(rates.blocks.backward),
      flops_text(rates.head.forward), flops_text(rates.head.backward), 1e3 * rates.micro_s,
      format_bytes(rates.memory));
}

}  // namespace

PlannedDevice published_device(const ClusterDevice& device, const RateShares& shares,
                               int64_t gpus) {
  return {.name = std::string(device.name),
          .title = fmt::format("{} {}", gpus, device.name),
          .unit = "GPU",
          .memory = device.memory,
          .rates = published_rates(device, shares, gpus),
          .assumptions = {
              fmt::format(
                  "{}: {} of memory, {:.0f} TFLOP/s of dense bf16 products, {:.2f} TB/s; {:.0f} "
                  "GB/s to the other {} GPUs of its machine, {:.0f} GB/s to other machines (data "
                  "sheets)",
                  device.name, format_bytes(static_cast<double>(device.memory)),
                  device.flops / 1e12, device.bandwidth / 1e12, device.near_link / 1e9,
                  device.near - 1, device.far_link / 1e9),
              fmt::format(
                  "a step reaches {:.0f} % of the products' rate (published: 39 % for torchtitan's "
                  "8B on 8 H100, 57 to 61 % for llm.q's 1.5B to 7B), {:.0f} % of the links', "
                  "{:.0f} % of the memory's",
                  100 * shares.utilisation, 100 * shares.link, 100 * shares.memory),
              kHidden, kEveryRow,
              "bf16, masters and moments in fp32; none of this has been measured on a GPU"}};
}

void use_this_machine(RecipeOptions& options, int64_t processes) {
  options.device_given = true;
  const CudaDriver driver = read_cuda_driver();
  if (driver.problem.empty()) {
    options.device = "cuda";
    load_cuda_plugin();
    if (processes > 1 && sheet_of(driver.name) == nullptr) {
      throw UsageError(
          fmt::format("--device this: the links of a {} are not known; give the model "
                      "of GPU that is nearest",
                      driver.name));
    }
    return;
  }
  options.device = "cpu";
  const int64_t threads = std::max(1U, std::thread::hardware_concurrency());
  if (processes > threads) {
    throw UsageError(
        fmt::format("--gpus {}: this machine has {}, wanted at most one process for "
                    "each",
                    processes, counted(threads, "thread")));
  }
  if (options.threads == 0) options.threads = static_cast<int>(threads / processes);
}

PlannedDevice measured_device(const PlannedLoop& planned, const RecipeOptions& options,
                              int64_t processes) {
  const c10::Device device = recipe_device(options);
  const DeviceMemory memory = device_memory(device);
  PlannedDevice out;
  out.name = "this";
  out.measured = true;
  out.memory =
      memory.available > 0 ? memory.held + memory.available : std::numeric_limits<int64_t>::max();
  if (device.is_cpu()) out.memory /= processes;
  out.unit = device.is_cpu() ? "process" : "GPU";
  out.title = device.is_cpu() ? fmt::format("{} of {}", counted(processes, "process", "es"),
                                            counted(options.threads, "thread"))
                              : fmt::format("{} {}", processes, read_cuda_driver().name);
  out.rates = rates_here(planned, device);
  out.assumptions = {measured_text(out.rates, planned.policy.shape)};
  if (processes > 1) out.assumptions.push_back(set_link(out.rates, device, processes));
  out.assumptions.push_back(fmt::format("{} of memory for each {}",
                                        memory.available > 0
                                            ? format_bytes(static_cast<double>(out.memory))
                                            : std::string("an unknown size"),
                                        out.unit));
  out.assumptions.push_back(kEveryRow);
  return out;
}

}  // namespace xrun
