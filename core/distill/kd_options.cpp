// The names by which recipes choose a loss.

#include "core/distill/kd_options.h"

#include <fmt/ranges.h>

#include "core/base/error.h"

namespace xrun {

const char* kd_loss_name(KdLoss loss) {
  switch (loss) {
    case KdLoss::kProjected: return "p-kl";
    case KdLoss::kGold: return "gold";
    case KdLoss::kRelaxed: return "h-kl";
    case KdLoss::kUld: return "uld";
    case KdLoss::kHybrid: return "hybrid";
    case KdLoss::kTopK: return "topk";
    case KdLoss::kFull: return "full";
  }
  return "?";
}

std::vector<std::string> kd_loss_names() {
  std::vector<std::string> names;
  for (int loss = 0; loss <= static_cast<int>(KdLoss::kFull); ++loss) {
    names.emplace_back(kd_loss_name(static_cast<KdLoss>(loss)));
  }
  return names;
}

KdLoss kd_loss_of(std::string_view name) {
  for (int loss = 0; loss <= static_cast<int>(KdLoss::kFull); ++loss) {
    if (name == kd_loss_name(static_cast<KdLoss>(loss))) return static_cast<KdLoss>(loss);
  }
  throw Error(fmt::format("xrun.kd: got the loss \"{}\", wanted one of {}", name,
                          fmt::join(kd_loss_names(), ", ")));
}

}  // namespace xrun
