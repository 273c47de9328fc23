// The names of the distillation losses.

#include "core/distill/kd_options.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace xrun::kd_options_test {

TEST(KdOptions, EveryNameIsReadBack) {
  EXPECT_EQ(kd_loss_names().size(), 7u);
  for (const std::string& name : kd_loss_names()) EXPECT_EQ(kd_loss_name(kd_loss_of(name)), name);
  EXPECT_EQ(
      error_of([] { kd_loss_of("pkl"); }),
      "xrun.kd: got the loss \"pkl\", wanted one of p-kl, gold, h-kl, uld, hybrid, topk, full");
}

TEST(KdOptions, ASettingOfAnotherLossIsRefused) {
  check_kd_settings(KdLoss::kHybrid, {"beta", "temperature"});
  EXPECT_EQ(error_of([] {
              check_kd_settings(KdLoss::kProjected, {"topk", "beta"});
            }),
            "xrun.kd: the loss \"p-kl\" does not read beta; it reads temperature, topk, reverse, "
            "mean, projection. For a second loss call xrun.kd again and add the results");
}

TEST(KdOptions, TheNamesOfMeans) {
  EXPECT_EQ(chunk_mean_of("chain"), ChunkMean::kChain);
  EXPECT_EQ(error_of([] { chunk_mean_of("mean"); }),
            "xrun.kd: mean is \"mean\", wanted \"arithmetic\", \"geometric\" or \"chain\"");
}

}  // namespace xrun::kd_options_test
