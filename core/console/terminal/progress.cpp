// A line that stays clears the status line; the next step that prints no such line draws it again.

#include "core/console/terminal/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

constexpr double kMeanWeight = 0.1;  // of the newest step
constexpr double kLineS = 1;         // between lines that stay on a terminal
constexpr double kPlainLineS = 30;   // between lines elsewhere
constexpr double kShowTaskAfterS = 2;
constexpr double kRedrawS = 0.1;

// Adds the `count`-th value to a mean: a plain mean, in which the newest value weighs 1 / count,
// until that is less than kMeanWeight, then an exponential one.
void move_mean(double& mean, double value, int64_t count) {
  mean += std::max(kMeanWeight, 1 / static_cast<double>(count)) * (value - mean);
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string format_duration(double seconds) {
  // Rounds up, so that "0s" means that nothing is left.
  const auto whole = static_cast<int64_t>(std::ceil(std::max(seconds, 0.0)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  const int64_t minutes = (whole + 59) / 60;
  return fmt::format("{}h {:02}m", minutes / 60, minutes % 60);
}

std::string format_epochs(double epochs) {
  if (epochs < 1) return fmt::format("{:.2g}", epochs);
  std::string text = fmt::format("{:.{}f}", epochs, epochs < 100 ? 1 : 0);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string format_metric(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
  const double size = std::fabs(value);
  if (size >= 1e-4 && size < 10) return fmt::format("{:.4f}", value);
  return fmt::format("{:.4g}", value);
}

RunProgress::RunProgress(Console& console, SecondsClock clock)
    : console_(console), clock_(std::move(clock)) {
  start();
}

RunProgress::~RunProgress() { finish(); }

void RunProgress::start() {
  last_ = last_printed_ = clock_();
  body_s_ = update_s_ = tokens_ = flops_ = measuring_s_ = measured_s_ = 0;
  steps_ = measured_ = measured_later_ = 0;
  printed_done_ = -1;
}

void RunProgress::skip_wait() {
  last_ = clock_();
  measuring_s_ = 0;
}

// Bodies `done` to `total` - 1 are to come; those whose number is a multiple of measure_every
// evaluate. If that is unknown, assumes the share of evaluating bodies so far, without the first
// body, which may be the only one.
double RunProgress::seconds_left(const StepProgress& progress) const {
  const auto left = static_cast<double>(progress.total - progress.done);
  double evaluations = 0;
  if (const int64_t every = progress.measure_every; every > 0) {
    evaluations = static_cast<double>((progress.total - 1) / every - (progress.done - 1) / every);
  } else if (steps_ > 1) {
    evaluations = left * static_cast<double>(measured_later_) / static_cast<double>(steps_ - 1);
  }
  return left * body_s_ + evaluations * measured_s_;
}

std::string RunProgress::line(const StepProgress& progress) const {
  std::string text = progress.total > 0 ? fmt::format("step {}/{}", progress.done, progress.total)
                                        : fmt::format("step {}", progress.done);
  if (format_epochs(progress.epochs) != "1" && progress.epochs > 1) {
    text +=
        fmt::format("  epoch {}/{}", format_epochs(progress.epoch), format_epochs(progress.epochs));
  }
  if (progress.loss) text += "  loss " + format_metric(*progress.loss);
  // A line has room for only one of accuracy and margin.
  if (progress.accuracy) {
    text += fmt::format("  accuracy {:.2f}", *progress.accuracy);
  } else if (progress.margin) {
    text += "  margin " + format_metric(*progress.margin);
  } else {
    if (progress.kd) text += "  kd " + format_metric(*progress.kd);
    if (progress.ce) text += "  ce " + format_metric(*progress.ce);
  }
  if (progress.reward) text += "  reward " + format_metric(*progress.reward);
  if (update_s_ > 0 && tokens_ > 0) {
    // A ratio of means, because a mean of rates would give short steps too much weight.
    text += fmt::format("  {} tokens/s", count_text(std::llround(tokens_ / update_s_)));
    if (progress.peak_flops > 0 && flops_ > 0) {
      const double percent = 100 * flops_ / update_s_ / progress.peak_flops;
      text += fmt::format(" ({:.{}f}% of peak)", percent, percent < 10 ? 1 : 0);
    }
  }
  if (progress.total > progress.done) {
    text += fmt::format("  {} left", format_duration(seconds_left(progress)));
  }
  return text;
}

std::string RunProgress::step(const StepProgress& progress) {
  const double now = clock_();
  const double body_s = std::max(now - last_ - measuring_s_, 0.0);
  const bool first = ++steps_ == 1;
  if (measuring_s_ > 0) {
    move_mean(measured_s_, measuring_s_, ++measured_);
    measured_later_ += first ? 0 : 1;
    measuring_s_ = 0;
  }
  // The second body replaces the first one's time, which includes loading the weights.
  move_mean(body_s_, body_s, std::max<int64_t>(steps_ - 1, 1));
  move_mean(update_s_, progress.update_s > 0 ? progress.update_s : body_s, steps_);
  move_mean(tokens_, static_cast<double>(progress.tokens), steps_);
  move_mean(flops_, progress.flops, steps_);
  last_ = now;
  const bool terminal = console_.traits().terminal;
  const bool last = progress.total > 0 && progress.done >= progress.total;
  // True if a tenth of the run has passed since the last line that stayed.
  const bool tenth = progress.total > 0 &&
                     (progress.done - printed_done_) * 10 >= std::max<int64_t>(progress.total, 10);
  const bool late = now - last_printed_ >= (terminal ? kLineS : kPlainLineS);
  std::string text = line(progress);
  if (!first && !last && !tenth && !late) {
    console_.set_status(text);  // does nothing without a terminal
    return "";
  }
  last_printed_ = now;
  printed_done_ = progress.done;
  console_.set_status("");
  console_.print_raw(text);
  return text;
}

void RunProgress::finish() { console_.set_status(""); }

TaskProgress::TaskProgress(Console& console, const std::string& what, std::string unit,
                           SecondsClock clock)
    : console_(console),
      what_(shown_text(what, Blanks::kBreaksMarked)),
      unit_(std::move(unit)),
      clock_(std::move(clock)) {
  began_ = shown_ = clock_();
}

TaskProgress::~TaskProgress() { console_.set_status(""); }

void TaskProgress::update(int64_t done, int64_t total) {
  const double now = clock_();
  const bool terminal = console_.traits().terminal;
  if (now - began_ < kShowTaskAfterS) return;
  if (now - shown_ < (terminal ? kRedrawS : kPlainLineS)) return;
  shown_ = now;
  std::string text = what_ + "  " + count_text(done);
  if (total > 0) text += "/" + count_text(total);
  text += " " + unit_;
  if (done > 0 && total > done) {
    const double left =
        (now - began_) / static_cast<double>(done) * static_cast<double>(total - done);
    text += fmt::format("  {} left", format_duration(left));
  }
  if (terminal) {
    console_.set_status(text);
  } else {
    console_.print_raw(text);
  }
}

}  // namespace xrun
