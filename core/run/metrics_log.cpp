// Invariant: metrics.jsonl holds whole lines of ascending steps, except for a last line that a kill
// tore; opening for a resume cuts that line and every step from first_step on.

#include "core/run/metrics_log.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/run/record/metrics_file.h"

namespace xrun {

namespace {

// The rank of a key's group: train/, valid/, others, perf/.
int group_of(std::string_view key) {
  if (key.starts_with("train/")) return 0;
  if (key.starts_with("valid/")) return 1;
  return key.starts_with("perf/") ? 3 : 2;
}

// Returns the step of a line, nullopt if it is not an object with a step.
std::optional<int64_t> line_step(std::string_view line) {
  try {
    const Json object = parse_json(line, "metrics.jsonl");
    const Json* step = object.find("step");
    if (step != nullptr && step->is_int()) return step->as_int();
  } catch (const Error&) {
    // torn
  }
  return std::nullopt;
}

// Returns the length of the lines before `step`, which a resume keeps; calls `keeps` with the step
// of each of them.
size_t count_valid_bytes(std::string_view bytes, int64_t step,
                         const std::function<void(int64_t)>& keeps) {
  size_t valid_bytes = 0;
  while (valid_bytes < bytes.size()) {
    const size_t end = bytes.find('\n', valid_bytes);
    if (end == std::string::npos) break;  // torn
    const auto found = line_step(bytes.substr(valid_bytes, end - valid_bytes));
    // Everything after the first bad line is removed too: lines ascend, so it is of later steps
    // than that line.
    if (!found || *found >= step) break;
    valid_bytes = end + 1;
    keeps(*found);
  }
  return valid_bytes;
}

}  // namespace

std::string missing_metrics(const std::filesystem::path& path, int64_t step) {
  MissingSteps missing;
  if (path_exists(path)) {
    count_valid_bytes(read_file(path), step, [&](int64_t number) { missing.has(number); });
  }
  missing.until(step);
  return missing.text();
}

LastLine last_logged_line(const std::filesystem::path& path) {
  LastLine last;
  if (!path_exists(path)) return last;
  const std::string bytes = read_file(path);
  const size_t valid_bytes = count_valid_bytes(bytes, std::numeric_limits<int64_t>::max(),
                                               [&](int64_t step) { last.step = step; });
  const std::string_view lines = std::string_view(bytes).substr(0, valid_bytes);
  if (lines.empty()) return last;
  // 0 if it is the only line: npos + 1.
  last.trained = lines.substr(lines.rfind('\n', lines.size() - 2) + 1).find("\"train/") !=
                 std::string_view::npos;
  return last;
}

int64_t cut_metrics(const std::filesystem::path& path, int64_t step) {
  if (!path_exists(path)) return 0;
  const std::string bytes = read_file(path);
  int64_t lines = 0;
  const size_t valid_bytes = count_valid_bytes(bytes, step, [&](int64_t) { ++lines; });
  if (valid_bytes < bytes.size()) set_file_size(path, valid_bytes);
  return lines;
}

MetricsLog::MetricsLog(const std::filesystem::path& dir, int64_t first_step, bool writes)
    : path_(dir / "metrics.jsonl") {
  if (!writes) return;
  tensorboard_.emplace(dir / "tb", first_step);
  cut_metrics(path_, first_step);
  file_ = std::make_unique<FileWriter>(path_, FileWriter::Mode::kAppend);
}

void MetricsLog::log(MetricSpan metrics) {
  for (const auto& metric : metrics) {
    XRUN_CHECK(metric.first != "step" && metric.first != "nonfinite",
               "a metric cannot be named \"{}\": every line of metrics.jsonl has that key already; "
               "choose another name",
               metric.first);
    const auto same = std::find_if(pending_.begin(), pending_.end(),
                                   [&](const auto& old) { return old.first == metric.first; });
    // The last value of a body wins, as an assignment would.
    if (same != pending_.end()) {
      same->second = metric.second;
    } else {
      pending_.push_back(metric);
    }
  }
}

bool MetricsLog::empty() const { return pending_.empty(); }

Json MetricsLog::write(int64_t step) {
  // For people who read the file; inside a group the order of logging stays.
  std::stable_sort(pending_.begin(), pending_.end(), [](const auto& a, const auto& b) {
    return group_of(a.first) < group_of(b.first);
  });
  Json object = Json::object();
  object.set("step", step);
  last_nulls_.clear();
  for (const auto& [name, value] : pending_) {
    const bool finite = std::isfinite(value);
    // JSON has no NaN; "nonfinite" keeps such a step findable.
    object.set(name, finite ? Json(value) : Json());
    if (!finite) last_nulls_.push_back(name);
  }
  if (!last_nulls_.empty()) object.set("nonfinite", std::ssize(last_nulls_));
  write_line(step, dump_json(object) + "\n");
  // After the write: if it fails, the same step is written again and must not count twice.
  for (const std::string& name : last_nulls_) ++nonfinite_[name];
  pending_.clear();
  return object;
}

void MetricsLog::take_back(int64_t step, MetricList pending) {
  if (tensorboard_) {
    file_.reset();  // write_line cuts the line off and opens the file again
    cut_metrics(path_, step);
    tensorboard_->forget(step);
  }
  for (const std::string& name : last_nulls_) {
    if (--nonfinite_[name] == 0) nonfinite_.erase(name);
  }
  last_nulls_.clear();
  pending_ = std::move(pending);
}

void MetricsLog::write_line(int64_t step, const std::string& line) {
  if (!tensorboard_) return;
  try {
    if (file_ == nullptr) {  // a full disk left half a line, or a line without its event
      cut_metrics(path_, step);
      file_ = std::make_unique<FileWriter>(path_, FileWriter::Mode::kAppend);
    }
    file_->write(line);
    // To the kernel, not to the disk: a kill of the process loses nothing, and no step waits for an
    // fsync.
    file_->flush();
    tensorboard_->write(step, pending_);
  } catch (...) {
    file_.reset();
    throw;
  }
}

void MetricsLog::sync() {
  // A checkpoint follows: its steps are not computed again, so their lines must be on the disk.
  if (file_ != nullptr) file_->sync();
  if (tensorboard_) tensorboard_->sync();
}

}  // namespace xrun
