// The run of a bundle against the steps that the bundle recorded.

#include "core/run/first_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::first_steps_test {
namespace {

Json step(int64_t number, double loss) {
  return Json(Json::Object{{"step", number}, {"train/loss", loss}, {"perf/step_s", loss * 2}});
}

LockedRun recorded() {
  return {.machine = Json(Json::Object{{"device", "cpu"}, {"threads", 2}}),
          .environment = Json(Json::Object{{"cpu", "A"}}),
          .date = "",
          .measured = Json::object(),
          .steps = {Json(Json::Object{{"step", 0}, {"train/loss", 0.5}}),
                    Json(Json::Object{{"step", 1}, {"train/loss", 0.25}})}};
}

FirstStepsTerms terms() {
  return {.machine = recorded().machine, .environment = recorded().environment, .settings = {}};
}

}  // namespace

TEST(FirstSteps, EqualBitsAreReportedAtTheLastOne) {
  FirstSteps steps(recorded(), terms());
  EXPECT_EQ(steps.comparison_notice(), "");
  EXPECT_EQ(steps.compare(step(0, 0.5)), "");
  EXPECT_EQ(steps.compare(step(1, 0.25)), "steps 0 to 1 are the bundle's, bit for bit");
  EXPECT_EQ(steps.compare(step(2, 0.1)), "");
  EXPECT_EQ(steps.end(), "");
}

TEST(FirstSteps, ARunThatEndsEarlierReportsWhatItHas) {
  FirstSteps steps(recorded(), terms());
  steps.compare(step(0, 0.5));
  EXPECT_EQ(steps.end(), "step 0 is the bundle's, bit for bit");
  EXPECT_EQ(steps.end(), "");
}

TEST(FirstSteps, ADifferenceEndsTheRunUnlessItIsForced) {
  const double other = std::nextafter(0.5, 1);
  FirstSteps steps(recorded(), terms());
  EXPECT_EQ(
      error_of([&] { steps.compare(step(0, other)); }),
      "step 0: train/loss is 0.5000000000000001, but 0.5 in the bundle (relative difference "
      "2.2e-16); this kind of machine should give the same bits; pass --force to continue anyway");
  EXPECT_TRUE(throws<Error>("step 1: train/loss is 0.25000000000000006, but 0.25 in the bundle",
                            [&] { steps.compare(step(1, std::nextafter(0.25, 1))); }))
      << "at every such step";
  FirstStepsTerms forced = terms();
  forced.force = true;
  FirstSteps goes_on(recorded(), forced);
  EXPECT_EQ(goes_on.compare(step(0, other)),
            "step 0: train/loss is 0.5000000000000001, but 0.5 in the bundle (relative difference "
            "2.2e-16)");
  EXPECT_EQ(goes_on.compare(step(1, 0.25)), "");
  EXPECT_EQ(goes_on.end(), "");
}

TEST(FirstSteps, AnotherMachineIsReportedAndItsDifferencesToo) {
  FirstStepsTerms elsewhere = terms();
  elsewhere.environment = Json(Json::Object{{"cpu", "B"}});
  FirstSteps steps(recorded(), elsewhere);
  EXPECT_NE(steps.comparison_notice().find("(cpu: \"A\" -> \"B\")"), std::string::npos);
  EXPECT_EQ(steps.compare(step(0, 0.4)),
            "step 0: train/loss is 0.4, but 0.5 in the bundle (relative difference 2.0e-01)");
}

TEST(FirstSteps, OtherSettingsAreNotCompared) {
  FirstStepsTerms other = terms();
  other.settings = {{"config.beta", "0.1", "0.2"}};
  FirstSteps steps(recorded(), other);
  EXPECT_EQ(steps.comparison_notice(),
            "the bundle's first steps are not compared: this run has other settings (config.beta)");
  EXPECT_EQ(steps.compare(step(0, 9)), "");
}

TEST(FirstSteps, AMissingMetricAndANanAreDifferences) {
  FirstSteps missing(recorded(), terms());
  EXPECT_NE(error_of([&] {
              missing.compare(Json(Json::Object{{"step", 0}}));
            }).find("is absent"),
            std::string::npos);
  FirstSteps nan(recorded(), terms());
  EXPECT_EQ(
      error_of([&] { nan.compare(step(0, std::numeric_limits<double>::quiet_NaN())); }),
      "step 0: train/loss is null, but 0.5 in the bundle (relative difference nan); this kind of "
      "machine should give the same bits; pass --force to continue anyway");
}

// The steps before a resume were compared when they ran.
TEST(FirstSteps, AResumedRunComparesItsOwnStepsOnly) {
  FirstSteps steps(recorded(), terms());
  EXPECT_EQ(steps.compare(step(1, 0.25)), "");
  EXPECT_EQ(steps.end(), "");
}

}  // namespace xrun::first_steps_test
