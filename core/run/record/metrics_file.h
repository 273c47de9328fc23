#pragma once
// metrics.jsonl read back: one series a metric. The file may be one that a run still writes, one
// that a kill tore, or garbage.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// One metric over the steps that logged it.
struct MetricSeries {
  std::string name;
  std::vector<int64_t> steps;  // growing
  std::vector<double> values;  // NaN where the run wrote null: the value was not finite
};

struct RunMetrics {
  static constexpr size_t kMostSeries = 400;  // further names are only counted

  std::vector<MetricSeries> series;  // in the order in which their names first occur
  int64_t objects = 0;               // lines that were read
  int64_t last_step = -1;            // -1: none
  int64_t nonfinite = 0;             // nulls among the values
  std::vector<std::string> notices;  // "metrics.jsonl:17: ..." for what could not be read

  const MetricSeries* find(std::string_view name) const;  // nullptr if it was never logged
};

// Reads all that is whole: a torn last line is said in the notices, and so is, once with their
// number, what stands between whole lines and is no object of a later step than the one before;
// steps without a line are named.
// Throws Error if the file cannot be read or has more than 2 GiB.
RunMetrics read_metrics(const std::filesystem::path& path);

}  // namespace xrun
