// Micro-batch m of a step belongs to rank m mod n. For N trained elements a rank sends 4 N (n - 1)
// / n bytes of gradients after each of its micro-batches.

#include "core/model/cost/step_forecast.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr int64_t kGb = 1'000'000'000;

// Weights that are still being sent at level 2 when a step begins: kGathersInFlight of
// core/train/weight_gather.cpp, each of the least size that core/dist/flat_index.h gives a bucket.
constexpr double kLateBytes = 4 * (16 << 20);

// One micro-batch on every rank, in seconds. All ranks wait for the slowest one.
struct Round {
  double forward = 0, backward = 0, all = 0;
};

Round round_of(const MicroWork& micro, const StepRates& rates, bool again) {
  Round out;
  const auto add = [&](const PassWork& work, const PassRates& rate) {
    out.forward += work.forward / rate.forward;
    out.backward += work.backward / rate.backward;
    out.all += work.frozen / rate.forward;
  };
  add(micro.blocks, rates.blocks);
  add(micro.head, rates.head);
  if (again) out.backward += micro.blocks.forward / rates.blocks.forward;
  out.all += out.forward + out.backward + rates.micro_s;
  return out;
}

std::vector<Round> rounds_of(const StepWork& work, const StepRates& rates, int64_t ranks,
                             bool again) {
  std::vector<Round> rounds;
  for (size_t m = 0; m < work.micros.size(); ++m) {
    if (m % static_cast<size_t>(ranks) == 0) rounds.emplace_back();
    const Round one = round_of(work.micros[m], rates, again);
    if (one.all > rounds.back().all) rounds.back() = one;
  }
  return rounds;
}

}  // namespace

// NVIDIA's data sheets: H100 and H200 SXM (989 TFLOP/s, NVLink 900 GB/s both ways, a 400 Gbit/s
// adapter for each GPU of a DGX), A100 SXM (312 TFLOP/s, 600 GB/s, 200 Gbit/s).
const std::vector<ClusterDevice>& cluster_devices() {
  static const std::vector<ClusterDevice> all = {
      {"a100", 80 * kGb, 312e12, 2.04e12, 300e9, 25e9},
      {"h100", 80 * kGb, 989e12, 3.35e12, 450e9, 50e9},
      {"h200", 141 * kGb, 989e12, 4.8e12, 450e9, 50e9},
  };
  return all;
}

const ClusterDevice& cluster_device(std::string_view name) {
  std::string known;
  for (const ClusterDevice& device : cluster_devices()) {
    if (device.name == name) return device;
    add_item(known, device.name);
  }
  throw UsageError(fmt::format("--device {}: wanted one of {}, this", name, known));
}

double published_link(const ClusterDevice& device, int64_t gpus) {
  return gpus > device.near ? device.far_link : device.near_link;
}

StepRates published_rates(const ClusterDevice& device, const RateShares& shares, int64_t gpus) {
  const double products = device.flops * shares.utilisation;
  return {.blocks = {products, products},
          .head = {products, products},
          .memory = device.bandwidth * shares.memory,
          .link = published_link(device, gpus) * shares.link};
}

StepForecast forecast_step(const StepWork& work, const StepRates& rates, int64_t ranks,
                           int64_t level) {
  const auto n = static_cast<double>(ranks);
  const double share = (n - 1) / n;
  const bool again = work.recompute || (level >= 3 && ranks > 1);
  const std::vector<Round> rounds = rounds_of(work, rates, ranks, again);
  StepForecast out;
  for (const Round& round : rounds) out.compute_s += round.all;
  if (rounds.size() > 1) {
    // Gradients of further micro-batches are added to those of the first.
    const auto sums = static_cast<double>(rounds.size() - 1);
    out.compute_s += sums * kSumBytes * work.trained / rates.memory;
  }
  const double held = level >= 1 ? work.trained / n : work.trained;
  out.update_s = kUpdateBytes * held / rates.memory;
  if (ranks == 1 || rounds.empty()) return out;
  const double gradients = 4 * work.trained * share;
  const double after = level >= 3 ? 0 : gradients;
  double fetched = 0;
  if (level >= 1) fetched += work.element * work.frozen * share;
  if (level >= 3) fetched += 2 * work.element * work.weights * share;
  out.sent_bytes = (gradients + fetched) * static_cast<double>(rounds.size()) + after;
  out.exchange_s = out.sent_bytes / rates.link;
  if (!rates.overlaps) {
    out.exposed_s = out.exchange_s;
    return out;
  }
  const auto exposed = [&](double bytes, double hidden_s) {
    return std::max(0.0, bytes / rates.link - hidden_s);
  };
  for (size_t r = 0; r < rounds.size(); ++r) {
    const double next = r + 1 < rounds.size() ? rounds[r + 1].forward : 0;
    out.exposed_s += exposed(gradients, rounds[r].backward + next);
    out.exposed_s += exposed(fetched, rounds[r].all);
  }
  // Weights that the next step's first forward need not wait for before it begins.
  double late = 0;
  if (level == 1) late = after;
  if (level == 2) late = std::min(after, kLateBytes * share);
  out.exposed_s += (after - late) / rates.link + exposed(late, rounds.front().forward);
  return out;
}

}  // namespace xrun
