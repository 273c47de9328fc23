// Files of equal bytes hold equal weights. In different files the first differing tensor and
// element are searched for.

#include "core/run/first_divergence.h"

#include <ATen/ops/ne.h>
#include <ATen/ops/nonzero.h>
#include <fmt/core.h>

#include <cstring>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mapped_file.h"
#include "core/base/strings.h"
#include "core/model/weights/safetensors.h"
#include "core/run/checkpoint.h"
#include "core/run/checkpoint_files.h"
#include "core/run/record/difference.h"
#include "core/run/record/metrics_file.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

struct RunNames {
  const std::string& one;
  const std::string& other;
};

// Describes the first step at which two series of a metric differ.
std::string divergence_text(const std::string& metric, const StepValues& at,
                            const RunNames& names) {
  if (!at.a || !at.b) {
    return fmt::format("step {}: {} logged {}, {} did not", at.step, at.a ? names.one : names.other,
                       metric, at.a ? names.other : names.one);
  }
  return fmt::format("step {}: {} is {} in {}, {} in {}", at.step, metric, *at.a, names.one, *at.b,
                     names.other);
}

FirstDivergence compare_metrics(const RunMetrics& a, const RunMetrics& b, const RunNames& names) {
  std::set<std::string> all;
  for (const RunMetrics* metrics : {&a, &b}) {
    for (const MetricSeries& series : metrics->series) {
      // perf/* differs between any two runs.
      if (is_result(series)) all.insert(series.name);
    }
  }
  FirstDivergence found{"metrics",
                        fmt::format("{} lines of {} metrics, equal", a.objects, all.size()), true};
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const std::string& name : all) {
    const MetricSeries none{name, {}, {}};
    const MetricSeries* in_a = a.find(name);
    const MetricSeries* in_b = b.find(name);
    const auto apart = first_step_where(
        in_a == nullptr ? none : *in_a, in_b == nullptr ? none : *in_b,
        [](const StepValues& at) { return !at.a || !at.b || !same_value(*at.a, *at.b); });
    // The earliest step of all metrics: later differences follow from it.
    if (!apart || apart->step >= first) continue;
    first = apart->step;
    found.text = divergence_text(name, *apart, names);
    found.same = false;
  }
  return found;
}

// The first element that differs, of tensors of one shape and type.
std::string element_text(const at::Tensor& a, const at::Tensor& b, const RunNames& names) {
  const at::Tensor where = at::nonzero(at::ne(a.flatten(), b.flatten()));
  // The bytes differ but no value does: 0 equals -0.
  if (where.numel() == 0) return "the bits of a zero or NaN";
  const int64_t first = where[0].item<int64_t>();
  return fmt::format("{} of {} values, the first at {}: {} in {}, {} in {}",
                     count_text(where.size(0)), count_text(a.numel()), first,
                     a.flatten()[first].item<double>(), names.one,
                     b.flatten()[first].item<double>(), names.other);
}

std::string tensors_text(const fs::path& a, const fs::path& b, const RunNames& names) {
  const SafetensorsFile in_a(a), in_b(b);
  for (const SafetensorsEntry& entry : in_a.entries()) {
    if (!in_b.has(entry.name)) return fmt::format("only {1} has {0}", entry.name, names.one);
    const at::Tensor x = in_a.read(entry.name), y = in_b.read(entry.name);
    if (x.sizes() != y.sizes() || x.scalar_type() != y.scalar_type()) {
      return fmt::format("{} has a different shape or type", entry.name);
    }
    // Bits, not values: 0 and -0 are different runs.
    if (std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0) continue;
    return fmt::format("{} differs in {}", entry.name, element_text(x, y, names));
  }
  for (const SafetensorsEntry& entry : in_b.entries()) {
    if (!in_a.has(entry.name)) return fmt::format("only {1} has {0}", entry.name, names.other);
  }
  return "the files differ, their tensors do not";
}

bool same_bytes(const fs::path& a, const fs::path& b) {
  const MappedFile in_a(a), in_b(b);
  return in_a.bytes() == in_b.bytes();
}

FirstDivergence compare_json(const std::string& what, const fs::path& a, const fs::path& b,
                             const RunNames& names) {
  const std::vector<Difference> found = find_differences(
      parse_json(read_file(a), a.string()), parse_json(read_file(b), b.string()), what);
  if (found.empty()) return {what, "equal", true};
  return {what,
          fmt::format("{} is {} in {}, {} in {}", found[0].path, found[0].before, names.one,
                      found[0].now, names.other),
          false};
}

FirstDivergence compare_object(const std::string& name, const fs::path& a, const fs::path& b,
                               const RunNames& names) {
  const std::string file = name + ".safetensors";
  if (!same_bytes(a / file, b / file)) {
    return {name, tensors_text(a / file, b / file, names), false};
  }
  FirstDivergence found = compare_json(name, a / (name + ".json"), b / (name + ".json"), names);
  if (!found.same) return found;
  int64_t values = 0;
  const SafetensorsFile opened(a / file);
  for (const SafetensorsEntry& entry : opened.entries()) {
    int64_t count = 1;
    for (const int64_t size : entry.shape) count *= size;
    values += count;
  }
  return {name, fmt::format("{} values, equal bit for bit", count_text(values)), true};
}

fs::path newest_of(const fs::path& run, const std::string& name) {
  const std::optional<int64_t> step = newest_checkpoint(run / "checkpoints");
  XRUN_CHECK(step.has_value(), "{} has no checkpoint", name);
  return run / "checkpoints" / checkpoint_name(*step);
}

}  // namespace

std::vector<FirstDivergence> first_divergences(const fs::path& a, const fs::path& b,
                                               const std::string& one, const std::string& other) {
  const RunNames names{one, other};
  std::vector<FirstDivergence> divergences = {
      compare_metrics(read_metrics(a / "metrics.jsonl"), read_metrics(b / "metrics.jsonl"), names)};
  const fs::path in_a = newest_of(a, one), in_b = newest_of(b, other);
  // Weights of different steps differ anyway, which would say nothing.
  if (in_a.filename() != in_b.filename()) {
    divergences.push_back({"checkpoint",
                           fmt::format("the newest is {} in {}, {} in {}", in_a.filename().string(),
                                       one, in_b.filename().string(), other),
                           false});
    return divergences;
  }
  const Json manifest =
      parse_json(read_file(in_a / kCheckpointManifest), (in_a / kCheckpointManifest).string());
  for (const Json& object : manifest.at("objects").as_array()) {
    divergences.push_back(compare_object(object.as_string(), in_a, in_b, names));
  }
  divergences.push_back(
      compare_json("run.state", in_a / kCheckpointRun, in_b / kCheckpointRun, names));
  return divergences;
}

}  // namespace xrun
