// Reads every whole line whose step is above the last one; reports the others.

#include "core/run/record/metrics_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr size_t kNamedRanges = 3;

class MetricsReader {
 public:
  explicit MetricsReader(std::string name) : name_(std::move(name)) {}

  void line(std::string_view text, bool last_and_torn);
  RunMetrics finish();

 private:
  std::string take(const Json& object);
  MetricSeries* series_of(const std::string& name);

  std::string name_;
  RunMetrics metrics_;
  MissingSteps missing_;
  std::unordered_map<std::string, size_t> index_;
  int64_t lines_ = 0, bad_ = 0, first_bad_ = 0, unnamed_ = 0;
  std::string first_problem_;
};

// Returns the series of a name, nullptr if there are too many.
MetricSeries* MetricsReader::series_of(const std::string& name) {
  const auto found = index_.find(name);
  if (found != index_.end()) return &metrics_.series[found->second];
  if (metrics_.series.size() >= RunMetrics::kMostSeries) {
    ++unnamed_;
    return nullptr;
  }
  index_.emplace(name, metrics_.series.size());
  metrics_.series.push_back({name, {}, {}});
  return &metrics_.series.back();
}

// Returns the problem of an object that has no step after the last one, else "".
std::string MetricsReader::take(const Json& object) {
  const Json* step = object.find("step");
  if (step == nullptr || !step->is_int()) return "has no whole number \"step\"";
  if (step->as_int() <= metrics_.last_step) {
    // No line was taken yet.
    if (metrics_.last_step < 0)
      return fmt::format("is of step {}, wanted 0 or more", step->as_int());
    return fmt::format("is of step {}, the line before it of step {}", step->as_int(),
                       metrics_.last_step);
  }
  metrics_.last_step = step->as_int();
  missing_.has(metrics_.last_step);
  for (const auto& [name, value] : object.as_object()) {
    // "nonfinite" counts the nulls of its line; strings are not a series.
    if (name == "step" || name == "nonfinite" || !(value.is_number() || value.is_null())) continue;
    MetricSeries* series = series_of(name);
    if (series == nullptr) continue;
    series->steps.push_back(metrics_.last_step);
    // JSON has no NaN: a null is a value that was not finite.
    series->values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                             : value.as_double());
    metrics_.nonfinite += value.is_null() ? 1 : 0;
  }
  ++metrics_.objects;
  return "";
}

void MetricsReader::line(std::string_view text, bool last_and_torn) {
  ++lines_;
  if (last_and_torn) {
    metrics_.notices.push_back(
        fmt::format("{}:{}: ends in the middle of a line, as after a kill or while the run is "
                    "writing; that line is left out",
                    name_, lines_));
    return;
  }
  std::string problem;
  try {
    problem = take(parse_json(text, name_, lines_));
  } catch (const Error&) {
    problem = "is not a JSON object";
  }
  // Only the first bad line is described; later ones are counted.
  if (problem.empty() || ++bad_ > 1) return;
  first_bad_ = lines_;
  first_problem_ = std::move(problem);
}

RunMetrics MetricsReader::finish() {
  if (bad_ > 0) {
    metrics_.notices.push_back(
        fmt::format("{}:{}: {}; {} left out", name_, first_bad_, first_problem_,
                    bad_ == 1   ? "that line is"
                    : bad_ == 2 ? "this and one more line are"
                                : fmt::format("this and {} more lines are", bad_ - 1)));
  }
  if (const std::string missing = missing_.text(); !missing.empty()) {
    metrics_.notices.push_back(missing);
  }
  if (unnamed_ > 0) {
    metrics_.notices.push_back(
        fmt::format("{}: has more than {} metrics; {} values of later ones are left out", name_,
                    RunMetrics::kMostSeries, count_text(unnamed_)));
  }
  return std::move(metrics_);
}

}  // namespace

const MetricSeries* RunMetrics::find(std::string_view name) const {
  for (const MetricSeries& curve : series) {
    if (curve.name == name) return &curve;
  }
  return nullptr;
}

RunMetrics read_metrics(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, kMostMetricsBytes);
  MetricsReader reader(path.filename().string());
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = bytes.find('\n', at);
    // The writer ends each line with a line feed, so a last line without one was cut off.
    const bool torn = end == std::string::npos;
    reader.line(std::string_view(bytes).substr(at, torn ? std::string::npos : end - at), torn);
    if (torn) break;
    at = end + 1;
  }
  return reader.finish();
}

void MissingSteps::has(int64_t step) {
  // The steps between the last one and this are missing.
  until(step);
  // A damaged line may name the largest step, to which 1 cannot be added.
  if (step < std::numeric_limits<int64_t>::max()) next_ = std::max(next_, step + 1);
}

void MissingSteps::until(int64_t end) {
  if (end <= next_) return;
  count_ += end - next_;
  if (ranges_.size() < kNamedRanges) ranges_.emplace_back(next_, end - 1);
  next_ = end;
}

std::string MissingSteps::text() const {
  if (count_ == 0) return "";
  std::string steps;
  int64_t unnamed = count_;
  for (const auto& [first, last] : ranges_) {
    add_item(steps,
             first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last));
    unnamed -= last - first + 1;
  }
  if (unnamed > 0) steps += fmt::format(" and {} more", count_text(unnamed));
  return fmt::format("metrics.jsonl has no line for {} {}", count_ == 1 ? "step" : "steps", steps);
}

std::optional<StepValues> first_step_where(const MetricSeries& a, const MetricSeries& b,
                                           const std::function<bool(const StepValues&)>& holds) {
  // A merge by step: both series ascend.
  for (size_t i = 0, j = 0; i < a.steps.size() || j < b.steps.size();) {
    // in_a: a has the smaller step of the two next ones, or both have it.
    const bool in_a = i < a.steps.size() && (j == b.steps.size() || a.steps[i] <= b.steps[j]);
    const bool in_b = j < b.steps.size() && (i == a.steps.size() || b.steps[j] <= a.steps[i]);
    StepValues values{in_a ? a.steps[i] : b.steps[j], {}, {}};
    if (in_a) values.a = a.values[i++];
    if (in_b) values.b = b.values[j++];
    if (holds(values)) return values;
  }
  return std::nullopt;
}

// By bits, so that 0 and -0 differ; NaN equals NaN.
bool same_value(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// Timings differ between equal runs.
bool is_result(const MetricSeries& series) { return !series.name.starts_with("perf/"); }

}  // namespace xrun
