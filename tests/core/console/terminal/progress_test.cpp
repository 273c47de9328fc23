// The progress line shows the step, its metrics and the time left; a file gets few lines.

#include "core/console/terminal/progress.h"

#include <gtest/gtest.h>

namespace xrun::progress_test {
namespace {

struct Screen {
  explicit Screen(bool terminal)
      : console([this](std::string_view text) { out += text; },
                {terminal, ColorDepth::kNone, 200}) {}
  std::string out;
  Console console;
  double now = 0;
  SecondsClock clock = [this] { return now; };
  std::string take() { return std::exchange(out, ""); }
};

TEST(RunProgress, ShowsStepLossAccuracyRateAndTimeLeft) {
  Screen screen(true);
  RunProgress progress(screen.console, screen.clock);
  screen.now = 2;
  const std::string line = progress.step({57, 120, 1.425, 3, 0.42127, 0.8125, 2480});
  EXPECT_EQ(line,
            "step 57/120  epoch 1.4/3  loss 0.4213  accuracy 0.81  1,240 tokens/s  2m 06s left");
  EXPECT_EQ(screen.take(), line + "\n");
}

TEST(RunProgress, AWaitIsNotPartOfTheTimeLeft) {
  Screen screen(false);
  RunProgress progress(screen.console, screen.clock);
  screen.now = 600;  // a prompt was open
  progress.skip_wait();
  screen.now = 602;
  EXPECT_EQ(progress.step({.done = 1, .total = 6}), "step 1/6  10s left");
}

TEST(RunProgress, ShowsTheMeanRewardOfRollouts) {
  Screen screen(false);
  RunProgress progress(screen.console, screen.clock);
  EXPECT_EQ(progress.step({.done = 1, .loss = 0.5, .reward = 0.25}),
            "step 1  loss 0.5000  reward 0.2500");
}

TEST(RunProgress, ShowsTheMarginOfALossWithoutAccuracy) {
  Screen screen(false);
  RunProgress progress(screen.console, screen.clock);
  StepProgress step{.done = 1, .loss = 0.5, .margin = 0.01234};
  EXPECT_EQ(progress.step(step), "step 1  loss 0.5000  margin 0.0123");
  step.accuracy = 0.5;
  progress.start();
  EXPECT_EQ(progress.step(step), "step 1  loss 0.5000  accuracy 0.50");
}

TEST(RunProgress, ShowsThePartsOfADistillation) {
  Screen screen(false);
  RunProgress progress(screen.console, screen.clock);
  EXPECT_EQ(progress.step({.done = 1, .loss = 3, .kd = 1.5, .ce = 2.25}),
            "step 1  loss 3.0000  kd 1.5000  ce 2.2500");
}

TEST(RunProgress, ShowsTheShareOfThePeakThatUpdatesReach) {
  Screen screen(false);
  RunProgress progress(screen.console, screen.clock);
  StepProgress step{.done = 1, .tokens = 100, .update_s = 0.5, .flops = 2e9, .peak_flops = 1e10};
  EXPECT_EQ(progress.step(step), "step 1  200 tokens/s (40% of peak)");
  progress.start();
  step.flops = 1e8;
  EXPECT_EQ(progress.step(step), "step 1  200 tokens/s (2.0% of peak)");
}

// Lines a second apart stay; the steps between share one that is redrawn.
TEST(RunProgress, StepLinesStayOnATerminal) {
  Screen screen(true);
  RunProgress progress(screen.console, screen.clock);
  const auto line = [&](double now, int64_t done) {
    screen.now = now;
    progress.step({.done = done, .total = 100});
    return screen.take();
  };
  EXPECT_EQ(line(0.25, 1), "step 1/100  25s left\n");
  EXPECT_EQ(line(0.5, 2), "\r\x1b[Kstep 2/100  25s left");
  EXPECT_EQ(line(0.75, 3), "\r\x1b[Kstep 3/100  25s left");
  EXPECT_EQ(line(1.3, 4), "\r\x1b[Kstep 4/100  34s left\n");
  EXPECT_EQ(line(1.5, 5), "\r\x1b[Kstep 5/100  30s left");
  progress.finish();
  EXPECT_EQ(screen.take(), "\r\x1b[K");
}

TEST(RunProgress, TheTimeLeftForgetsTheFirstBody) {
  Screen screen(true);
  RunProgress progress(screen.console, screen.clock);
  const auto line = [&](double now, int64_t done) {
    screen.now = now;
    progress.step({.done = done, .total = 11, .loss = 1, .tokens = 100, .update_s = 0.5});
    return screen.take();
  };
  EXPECT_EQ(line(60, 1), "step 1/11  loss 1.0000  200 tokens/s  10m 00s left\n");
  EXPECT_EQ(line(62, 2), "step 2/11  loss 1.0000  200 tokens/s  18s left\n");
  EXPECT_EQ(line(66, 3), "step 3/11  loss 1.0000  200 tokens/s  24s left\n");
}

TEST(RunProgress, TheTimeLeftCountsTheStepsAndTheEvaluationsToCome) {
  Screen screen(true);
  RunProgress progress(screen.console, screen.clock);
  const auto line = [&](double now, int64_t done, int64_t every) {
    screen.now = now;
    return progress.step({.done = done, .total = 11, .measure_every = every});
  };
  progress.add_measuring(50);  // before step 0
  // 10 bodies of 2 s; bodies 5 and 10 evaluate.
  EXPECT_EQ(line(52, 1, 5), "step 1/11  2m 00s left");
  progress.start();
  progress.add_measuring(50);
  EXPECT_EQ(line(104, 1, 0), "step 1/11  20s left") << "nothing tells when it evaluates again";
  EXPECT_EQ(line(106, 2, 0), "step 2/11  18s left");
  progress.add_measuring(50);
  // 8 bodies of 2 s; half of those after the first evaluated.
  EXPECT_EQ(line(158, 3, 0), "step 3/11  3m 36s left");
}

TEST(RunProgress, RatesFollowAnExponentialMean) {
  Screen screen(true);
  RunProgress progress(screen.console, screen.clock);
  for (int64_t step = 1; step <= 20; ++step) {
    progress.step({.done = step, .tokens = 100, .update_s = 1});
  }
  screen.take();
  progress.step({.done = 21, .tokens = 100, .update_s = 2});  // 1 + 0.1 * (2 - 1) = 1.1 s
  EXPECT_EQ(screen.take(), "\r\x1b[Kstep 21  91 tokens/s");
}

TEST(RunProgress, PrintsFewLinesToAFile) {
  Screen screen(false);
  RunProgress progress(screen.console, screen.clock);
  int lines = 0;
  for (int64_t step = 1; step <= 200; ++step) {
    screen.now += 0.1;
    progress.step({.done = step, .total = 200, .loss = 0.5, .tokens = 10});
    const std::string text = screen.take();
    EXPECT_FALSE(text.empty() && (step == 1 || step == 200));
    lines += !text.empty();
  }
  EXPECT_GE(lines, 10);
  EXPECT_LE(lines, 12);
  screen.now += 31;
  progress.step({.done = 200, .loss = 0.5, .tokens = 10});
  EXPECT_FALSE(screen.take().empty());
}

TEST(TaskProgress, AppearsAfterTwoSeconds) {
  Screen screen(true);
  {
    TaskProgress progress(screen.console, "caching pairs.jsonl", "rows", screen.clock);
    screen.now = 1.9;
    progress.update(100, 300);
    EXPECT_EQ(screen.take(), "");
    screen.now = 2;
    progress.update(120, 300);
    EXPECT_EQ(screen.take(), "\r\x1b[Kcaching pairs.jsonl  120/300 rows  3s left");
    screen.now = 2.05;
    progress.update(121, 300);
    EXPECT_EQ(screen.take(), "");
  }
  EXPECT_EQ(screen.take(), "\r\x1b[K");
}

TEST(Format, DurationsMetricsAndBytes) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(44.2), "45s");
  EXPECT_EQ(format_duration(130), "2m 10s");
  EXPECT_EQ(format_duration(11100), "3h 05m");
  EXPECT_EQ(format_duration(11101), "3h 06m");
  EXPECT_EQ(format_duration(7199.5), "2h 00m");
  EXPECT_EQ(format_epochs(0.0333), "0.033");
  EXPECT_EQ(format_epochs(3), "3");
  EXPECT_EQ(format_epochs(27.78), "27.8");
  EXPECT_EQ(format_epochs(444.4), "444");
  EXPECT_EQ(format_metric(0.693147), "0.6931");
  EXPECT_EQ(format_metric(12.3456), "12.35");
  EXPECT_EQ(format_metric(1), "1.0000") << "as wide as 0.5000";
  EXPECT_EQ(format_metric(1.23e-5), "1.23e-05");
  EXPECT_EQ(format_metric(0), "0");
  EXPECT_EQ(format_metric(-0.5), "-0.5000");
}

}  // namespace
}  // namespace xrun::progress_test
