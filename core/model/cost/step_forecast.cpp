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

// Weights that are still under way at level 2 when a step begins: kGathersInFlight of
// core/train/weight_gather.cpp, each of the least size that core/dist/flat_index.h gives a bucket.
constexpr double kLateBytes = 4 * (16 << 20);

// The micro-batches that ranks compute at a time, in seconds. They wait for the largest one.
struct Round {
  double forward = 0, backward = 0, all = 0;
};

std::vector<Round> rounds_of(const StepWork& work, int64_t gpus, bool again, double rate) {
  std::vector<Round> rounds;
  for (size_t m = 0; m < work.micros.size(); ++m) {
    if (m % static_cast<size_t>(gpus) == 0) rounds.emplace_back();
    const MicroWork& micro = work.micros[m];
    const double backward = micro.backward + (again ? micro.forward : 0);
    const double all = micro.forward + backward + micro.frozen;
    if (all / rate <= rounds.back().all) continue;
    rounds.back() = {micro.forward / rate, backward / rate, all / rate};
  }
  return rounds;
}

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
  const std::vector<Round> rounds = rounds_of(work, terms.gpus, again, rate);
  StepForecast out;
  for (const Round& round : rounds) out.compute_s += round.all;
  const double held = terms.level >= 1 ? work.trained / n : work.trained;
  out.update_s = kUpdateBytes * held / (device.bandwidth * terms.memory_share);
  if (terms.gpus == 1 || rounds.empty()) return out;
  const double gradients = 4 * work.trained * share;
  const double after = terms.level >= 3 ? 0 : 4 * work.trained * share;
  const double fetched = terms.level >= 3 ? 2 * work.element * work.weights * share : 0;
  out.sent_bytes = (gradients + fetched) * static_cast<double>(rounds.size()) + after;
  out.exchange_s = out.sent_bytes / link;
  const auto exposed = [&](double bytes, double hidden_s) {
    return std::max(0.0, bytes / link - hidden_s);
  };
  for (size_t r = 0; r < rounds.size(); ++r) {
    const double next = r + 1 < rounds.size() ? rounds[r + 1].forward : 0;
    out.exposed_s += exposed(gradients, rounds[r].backward + next);
    out.exposed_s += exposed(fetched, rounds[r].all);
  }
  // Weights that the next step's first forward need not wait for before it begins.
  double late = 0;
  if (terms.level == 1) late = after;
  if (terms.level == 2) late = std::min(after, kLateBytes * share);
  out.exposed_s += (after - late) / link + exposed(late, rounds.front().forward);
  return out;
}

}  // namespace xrun
