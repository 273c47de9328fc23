#pragma once
// metrics.jsonl read back, one series per metric. A run may still be writing the file, a kill may
// have torn it, or it may be garbage.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xrun {

// One metric over the steps that logged it.
struct MetricSeries {
  std::string name;
  std::vector<int64_t> steps;  // ascending
  std::vector<double> values;  // NaN where the run wrote null: the value was not finite
};

struct RunMetrics {
  static constexpr size_t kMostSeries = 400;  // further names are only counted

  std::vector<MetricSeries> series;  // in the order in which their names first occur
  int64_t objects = 0;               // lines read
  int64_t last_step = -1;            // -1: none
  int64_t nonfinite = 0;             // nulls among the values
  std::vector<std::string> notices;  // "metrics.jsonl:17: ..." for a line that could not be read

  const MetricSeries* find(std::string_view name) const;  // nullptr if it was never logged
};

constexpr uint64_t kMostMetricsBytes = uint64_t{2} << 30;  // some four million steps

// Reads every whole line. The notices report a torn last line, lines that are not an object of a
// later step than the one before (once, with their number), and steps without a line.
// Throws Error if the file cannot be read or has more than kMostMetricsBytes.
RunMetrics read_metrics(const std::filesystem::path& path);

// Collects the steps that have no line in metrics.jsonl, where every body of a run writes one.
class MissingSteps {
 public:
  // Notes a line; steps grow, from 0.
  void has(int64_t step);
  // Notes that every step below `end` should have a line.
  void until(int64_t end);
  // Returns "metrics.jsonl has no line for steps 13, 20 to 24 and 7 more", or "" if none is
  // missing.
  std::string text() const;

 private:
  int64_t next_ = 0, count_ = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // the first ones; first and last step
};

// The values that two runs logged at a step; nullopt where one of them logged none.
struct StepValues {
  int64_t step;
  std::optional<double> a, b;
};

// Returns the first step of either series for which `holds` is true.
std::optional<StepValues> first_step_where(const MetricSeries& a, const MetricSeries& b,
                                           const std::function<bool(const StepValues&)>& holds);

// Returns true if two values have the same bits, or both are NaN.
bool same_value(double a, double b);

// Returns true for a result of the run, false for its speed (perf/*).
bool is_result(const MetricSeries& series);

}  // namespace xrun
