// The names by which recipes choose a loss and its settings, and the settings that each loss reads.

#include "core/distill/kd_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace xrun {

namespace {

struct KdLossName {
  KdLoss loss;
  const char* name;
  std::vector<std::string> settings;
};

const std::array<KdLossName, 7>& kd_loss_table() {
  static const std::array<KdLossName, 7> table = {{
      {KdLoss::kProjected, "p-kl", {"temperature", "topk", "reverse", "mean", "projection"}},
      {KdLoss::kGold, "gold", {"temperature", "topk", "reverse", "mean", "projection"}},
      {KdLoss::kRelaxed, "h-kl", {"temperature", "topk", "reverse", "mean", "projection"}},
      {KdLoss::kUld, "uld", {"temperature", "mean"}},
      {KdLoss::kHybrid, "hybrid", {"temperature", "beta", "mean", "projection"}},
      {KdLoss::kTopK, "topk", {"temperature", "topk", "reverse", "mean"}},
      {KdLoss::kFull, "full", {"temperature", "reverse", "mean"}},
  }};
  return table;
}

const KdLossName& kd_loss_entry(KdLoss loss) { return kd_loss_table()[static_cast<size_t>(loss)]; }

// The head's bounds: below the minimum, a softmax reveals only its row's largest logit.
constexpr double kLeastTemperature = 1e-6, kMostTemperature = 1e30;

}  // namespace

const char* kd_loss_name(KdLoss loss) { return kd_loss_entry(loss).name; }

std::vector<std::string> kd_loss_names() {
  std::vector<std::string> names;
  for (const KdLossName& entry : kd_loss_table()) names.emplace_back(entry.name);
  return names;
}

KdLoss kd_loss_of(std::string_view name) {
  for (const KdLossName& entry : kd_loss_table()) {
    if (name == entry.name) return entry.loss;
  }
  throw UsageError(fmt::format("xrun.kd: got the loss \"{}\", wanted one of {}", name,
                               fmt::join(kd_loss_names(), ", ")));
}

ChunkMean chunk_mean_of(std::string_view name) {
  if (name == "arithmetic") return ChunkMean::kArithmetic;
  if (name == "geometric") return ChunkMean::kGeometric;
  if (name == "chain") return ChunkMean::kChain;
  throw UsageError(fmt::format(
      "xrun.kd: mean is \"{}\", wanted \"arithmetic\", \"geometric\" or \"chain\"", name));
}

const std::vector<std::string>& kd_settings(KdLoss loss) { return kd_loss_entry(loss).settings; }

void check_kd_settings(KdLoss loss, const std::vector<std::string>& given) {
  const std::vector<std::string>& known = kd_settings(loss);
  for (const std::string& name : given) {
    if (std::ranges::find(known, name) == known.end()) {
      throw UsageError(fmt::format(
          "xrun.kd: the loss \"{}\" does not read {}; it reads {}. For a second loss call "
          "xrun.kd again and add the results",
          kd_loss_name(loss), name, fmt::join(known, ", ")));
    }
  }
}

void check_kd_options(const KdOptions& options) {
  if (!(options.temperature >= kLeastTemperature && options.temperature <= kMostTemperature)) {
    throw UsageError(fmt::format("xrun.kd: temperature is {}, wanted a number from {} to {}",
                                 options.temperature, kLeastTemperature, kMostTemperature));
  }
  if (options.top_k < 1) {
    throw UsageError(fmt::format("xrun.kd: topk is {}, wanted at least 1", options.top_k));
  }
  if (!(options.beta >= 0 && options.beta <= 1)) {
    throw UsageError(fmt::format("xrun.kd: beta is {}, wanted 0 to 1", options.beta));
  }
  if (options.head_mb < 0) {
    throw UsageError(fmt::format("xrun.kd: head_mb is {}, wanted 0 or more", options.head_mb));
  }
  if (options.reverse) check_kd_settings(options.loss, {"reverse"});
}

}  // namespace xrun
