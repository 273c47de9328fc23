#pragma once
// metrics.jsonl and its TensorBoard twin: one object per step.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/run/tensorboard.h"

namespace xrun {

// Names and values as train_step and evaluate return them (Metrics).
using MetricList = std::vector<std::pair<std::string, double>>;
using MetricSpan = std::span<const std::pair<std::string, double>>;

// Collects metrics and writes one object per step:
//   {"step":0,"train/loss":0.6931,...,"valid/loss":...,"perf/step_s":...,"nonfinite":1}
// `step` is the number of loop bodies done before it. Metrics logged between the end of body k-1
// and the end of body k belong to step k: those before the first loop to step 0, those between two
// loops to the next body, those after the last loop to a separate step. Keys come in the order
// train/, valid/, others, perf/, and inside each in the order first logged; a key logged again
// takes the later value. NaN and infinities are null and counted in "nonfinite" (absent when 0).
// Doubles take the shortest form that reads back equal. Not thread-safe.
class MetricsLog {
 public:
  // Opens `dir`/metrics.jsonl and `dir`/tb, keeping the leading whole objects of steps below
  // first_step and dropping the rest: a damaged line and all after it, a torn last line included.
  // Throws Error if they cannot be written.
  //   writes  false: nothing is written or read; the first rank does so
  MetricsLog(const std::filesystem::path& dir, int64_t first_step, bool writes = true);

  void log(MetricSpan metrics);
  bool empty() const;  // true if nothing was logged since the last write
  const MetricList& pending() const { return pending_; }
  // Writes and flushes the object of `step`; returns it. Steps must grow. An empty object is
  // written too: every body has its line. After a failure the same step may be written again;
  // TensorBoard may then lack it.
  Json write(int64_t step);
  // Undoes the last write, of `step`: cuts its line, makes TensorBoard forget it and takes its
  // nulls out of the count. `pending`: the metrics logged before its body began.
  void take_back(int64_t step, MetricList pending);
  // Makes everything written durable; a checkpoint does so before it commits.
  void sync();

  // Nulls written by this object and not taken back, by metric.
  const std::map<std::string, int64_t>& nonfinite() const { return nonfinite_; }

 private:
  void write_line(int64_t step, const std::string& line);

  MetricList pending_;
  std::filesystem::path path_;
  std::unique_ptr<FileWriter> file_;              // null after a failed write
  std::optional<TensorBoardWriter> tensorboard_;  // absent where nothing is written
  std::map<std::string, int64_t> nonfinite_;
  std::vector<std::string> last_nulls_;  // of the object written last
};

// The last whole line of a metrics.jsonl.
struct LastLine {
  int64_t step = -1;     // -1: there is none
  bool trained = false;  // it has a metric train/...
};
LastLine last_logged_line(const std::filesystem::path& path);

// Cuts a metrics file to its leading whole objects of steps below `step`, and returns how many
// stay. A missing file stays missing. Throws Error if the file cannot be changed.
int64_t cut_metrics(const std::filesystem::path& path, int64_t step);

// Returns MissingSteps::text of the steps below `step` that cut_metrics would leave without a line.
std::string missing_metrics(const std::filesystem::path& path, int64_t step);

}  // namespace xrun
