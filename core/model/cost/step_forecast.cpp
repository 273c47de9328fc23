// Micro-batch m belongs to rank m mod n. With s = (n - 1) / n a rank sends 4 N s bytes of
// gradients.

#include "core/model/cost/step_forecast.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr int64_t kGb = 1'000'000'000;

// NVIDIA's data sheets: H100 and H200 SXM (989 TFLOP/s, NVLink 900 GB/s both ways, a 400 Gbit/s
// adapter for each GPU of a DGX), A100 SXM (312, 600, 200).
constexpr ClusterDevice kDevices[] = {
    {"a100", 80 * kGb, 312e12, 2.04e12, 300e9, 25e9},
    {"h100", 80 * kGb, 989e12, 3.35e12, 450e9, 50e9},
    {"h200", 141 * kGb, 989e12, 4.8e12, 450e9, 50e9},
};

// AdamW reads and writes master and moments, reads the gradient, and writes the copy.
constexpr double kUpdateBytes = 28;

}  // namespace

const ClusterDevice& cluster_device(std::string_view name) {
  std::string known;
  for (const ClusterDevice& device : kDevices) {
    if (device.name == name) return device;
    add_item(known, device.name);
  }
  throw UsageError(fmt::format("--device {}: wanted one of {}", name, known));
}

StepForecast forecast_step(const StepWork& work, const ClusterDevice& device,
                           const ForecastTerms& terms) {
  const auto n = static_cast<double>(terms.gpus);
  const double share = (n - 1) / n;
  const double rate = device.flops * terms.utilisation;
  const double link =
      terms.link_share * (terms.gpus > device.near ? device.far_link : device.near_link);
  const bool again = work.recompute || (terms.level >= 3 && terms.gpus > 1);
  // Ranks wait for the largest of the items that they compute at a time, and the backward that
  // hides the gradients lasts as long.
  std::vector<double> waits;
  double last_backward = 0;
  for (size_t m = 0; m < work.micros.size(); m += static_cast<size_t>(terms.gpus)) {
    double most = 0;
    for (size_t i = m; i < std::min(work.micros.size(), m + static_cast<size_t>(terms.gpus)); ++i) {
      const MicroWork& micro = work.micros[i];
      const double backward = micro.backward + (again ? micro.forward : 0);
      if (micro.forward + backward + micro.frozen <= most) continue;
      most = micro.forward + backward + micro.frozen;
      last_backward = backward;
    }
    waits.push_back(most / rate);
  }
  StepForecast out;
  for (const double seconds : waits) out.compute_s += seconds;
  const double held = terms.level >= 1 ? work.trained / n : work.trained;
  out.update_s = kUpdateBytes * held / (device.bandwidth * terms.memory_share);
  if (terms.gpus == 1) return out;
  const double gradients = 4 * work.trained * share;
  const double after = terms.level >= 3 ? 0 : 4 * work.trained * share;
  const double fetched = terms.level >= 3 ? 2 * work.element * work.weights * share : 0;
  out.sent_bytes = gradients + after + fetched * static_cast<double>(waits.size());
  out.exchange_s = out.sent_bytes / link;
  out.exposed_s = std::max(0.0, gradients / link - last_backward / rate) + after / link;
  for (const double seconds : waits) out.exposed_s += std::max(0.0, fetched / link - seconds);
  return out;
}

}  // namespace xrun
