// The learning rate by step, against transformers.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/train/adamw.h"
#include "tests/error_of.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun::schedule_test {
namespace {

TEST(Schedule, FactorsMatchTransformers) {
  const Json golden = read_json(source_path("tests/golden/adamw.json"));
  for (const Json& row : golden.at("schedules").as_array()) {
    const Schedule schedule = schedule_of(row.at("schedule").as_string());
    const int64_t steps = row.at("steps").as_int();
    const int64_t warmup = warmup_steps(row.at("warmup").as_double(), steps);
    const Json::Array& factors = row.at("factors").as_array();
    for (int64_t k = 0; k < steps; ++k) {
      SCOPED_TRACE(fmt::format("{} at {}", dump_json(row), k));
      expect_parity(schedule_factor(schedule, k, warmup, steps),
                    factors[static_cast<size_t>(k)].as_double(), 1e-12);
    }
  }
}

TEST(Schedule, WithoutWarmupTheFirstUpdateHasTheFullRate) {
  for (Schedule schedule : {Schedule::kConstant, Schedule::kLinear, Schedule::kCosine}) {
    EXPECT_EQ(schedule_factor(schedule, 0, 0, 10), 1.0);
  }
}

TEST(Schedule, AnUnknownNameListsTheKnownOnes) {
  EXPECT_EQ(message_of<UsageError>([&] { schedule_of("exponential"); }),
            "\"exponential\" is not a schedule; the schedules are constant, linear and cosine");
}

}  // namespace
}  // namespace xrun::schedule_test
