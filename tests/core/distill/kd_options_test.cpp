// The names of the distillation losses.

#include "core/distill/kd_options.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace xrun::kd_options_test {

TEST(KdOptions, EveryNameIsReadBack) {
  EXPECT_EQ(kd_loss_names().size(), 7u);
  for (const std::string& name : kd_loss_names()) EXPECT_EQ(kd_loss_name(kd_loss_of(name)), name);
  EXPECT_EQ(error_of([] { kd_loss_of("pkl"); }),
            "xrun.kd: got the loss \"pkl\", wanted one of p-kl, gold, h-kl, uld, hybrid, topk, full");
}

}  // namespace xrun::kd_options_test
