// The check of an objective: rows whose losses depend on each other, and gradients by differences.

#include "core/train/objective_check.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/rand_like.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"
#include "core/train/batches/batch.h"
#include "core/train/models/logprob_stand_in.h"
#include "tests/error_of.h"

namespace xrun::objective_check_test {
namespace {

// Three pairs of four and three trained tokens a side, in one micro-batch.
class NonSeparableRow : public testing::Test {
 protected:
  NonSeparableRow() : stand_in_(LogprobStandIn::seeded(3), at::kDouble) {
    PackedBatch pack;
    for (int64_t pair = 0; pair < 3; ++pair) {
      for (const int8_t side : {int8_t{1}, int8_t{-1}}) {
        const std::vector<int32_t> ids(side > 0 ? 5 : 4, 7);
        pack.append({.row_id = 10 + pair,
                     .pair_id = pair,
                     .group_id = pair,
                     .segment_id = 2 * pair + (side < 0),
                     .side = side},
                    ids, std::vector<uint8_t>(ids.size(), 1));
      }
    }
    BatchInfo info;
    info.row_name = [](int64_t row) { return "pairs.jsonl:" + std::to_string(row); };
    batch_ = std::make_unique<Batch>(std::move(info), std::vector<PackedBatch>{std::move(pack)});
  }
  at::Tensor policy(const View& view) {
    return view.sum(stand_in_.token_logprob(view, "policy", true));
  }
  at::Tensor margin(MicroBatch& micro) { return policy(micro.chosen()) - policy(micro.rejected()); }
  std::string row(const std::function<at::Tensor(MicroBatch&)>& loss, Unit unit = Unit::kPair) {
    const Objective objective = [&](MicroBatch& micro) {
      return ObjectiveResult{{{unit, loss(micro)}}, {}};
    };
    return non_separable_row(*batch_->micros().front(), objective,
                             [&](MicroBatch& micro) { return stand_in_.leaves_of(micro); });
  }

  LogprobStandIn stand_in_;
  std::unique_ptr<Batch> batch_;
};

TEST_F(NonSeparableRow, ASumOverUnitsIsSeparable) {
  EXPECT_EQ(row([&](MicroBatch& m) { return -at::log_sigmoid(margin(m)); }), "");
  EXPECT_EQ(row([&](MicroBatch& m) { return stand_in_.token_logprob(m.all(), "policy", true); },
                Unit::kToken),
            "");
}

TEST_F(NonSeparableRow, RandomNumbersDoNotCoupleRows) {
  EXPECT_EQ(row([&](MicroBatch& m) {
              const at::Tensor h = margin(m);
              return h * at::rand_like(h.detach());
            }),
            "");
}

TEST_F(NonSeparableRow, IsTheFirstRowWhoseLossDependsOnAnother) {
  EXPECT_EQ(row([&](MicroBatch& m) {
              const at::Tensor h = margin(m);
              return -at::log_sigmoid(h - 0.5 * h.mean());
            }),
            "pairs.jsonl:10");
}

TEST_F(NonSeparableRow, RestoresTheLogprobs) {
  MicroBatch& micro = *batch_->micros().front();
  const at::Tensor before = margin(micro).detach().clone();
  row([&](MicroBatch& m) { return -at::log_sigmoid(margin(m)); });
  EXPECT_TRUE(before.allclose(margin(micro).detach(), 1e-12, 1e-12));
  int calls = 0;
  const auto throws_on_moved_values = [&](MicroBatch& m) {
    if (++calls == 2) throw Error("no such value");
    return margin(m);
  };
  EXPECT_EQ(message_of<Error>([&] { row(throws_on_moved_values); }), "no such value");
  EXPECT_TRUE(before.allclose(margin(micro).detach(), 1e-12, 1e-12));
}

TEST_F(NonSeparableRow, NamesARowWhoseLossOrGradientIsNotFinite) {
  const auto bad = [&](const std::function<at::Tensor(MicroBatch&)>& loss) {
    return non_finite_row(
        *batch_->micros().front(),
        [&](MicroBatch& micro) {
          return ObjectiveResult{{{Unit::kPair, loss(micro)}}, {}};
        },
        [&](MicroBatch& micro) { return stand_in_.leaves_of(micro); });
  };
  EXPECT_FALSE(bad([&](MicroBatch& m) { return -at::log_sigmoid(margin(m)); }));
  const auto loss = bad([&](MicroBatch& m) { return 0 * margin(m) / (0 * margin(m)); });
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->row, "pairs.jsonl:10");
  EXPECT_FALSE(loss->gradient);
  const auto gradient = bad([&](MicroBatch& m) { return (0 * margin(m)).sqrt(); });
  ASSERT_TRUE(gradient);
  EXPECT_TRUE(gradient->gradient);
}

TEST(LogprobCheck, AllowsMoreErrorInAFloat32Loss) {
  LogprobCheck check;
  EXPECT_TRUE(check.agrees({.error = 1e-6}));
  EXPECT_FALSE(check.agrees({.error = 1e-4}));
  check.narrow = true;
  EXPECT_TRUE(check.agrees({.error = 1e-4}));
  EXPECT_FALSE(check.agrees({.error = 0.1}));
}

TEST(LogprobCheck, NeverAgreesWithANonFiniteError) {
  const LogprobCheck check;
  EXPECT_FALSE(check.agrees({.error = std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_FALSE(check.agrees({.error = std::numeric_limits<double>::infinity()}));
}

}  // namespace
}  // namespace xrun::objective_check_test
