// Values are compared as the doubles that metrics.jsonl spells exactly, so equal means the same
// bits.

#include "core/share/recorded_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/run/record/difference.h"
#include "core/run/record/metrics_file.h"
#include "core/run/record/run_files.h"
#include "core/run/record/run_record.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// Checkpoints, exports and time limits change no number of a step.
constexpr std::array<std::string_view, 3> kFreeSettings = {"save", "stop", "export"};

// Speed differs each time; every other metric has the same bits on one kind of machine.
bool is_speed(std::string_view metric) { return metric.starts_with("perf/"); }

Json without_speed(const Json& step) {
  Json out = Json::object();
  for (const auto& [name, value] : step.as_object()) {
    if (!is_speed(name)) out.set(name, value);
  }
  return out;
}

// Returns the lines of the loop's bodies, at most `most`. Lines logged after the last body have a
// step of their own and are left out.
Json::Array first_steps(const fs::path& run, int64_t bodies, int64_t most) {
  const std::string text = read_file(run / "metrics.jsonl", kMostMetricsBytes);
  Json::Array steps;
  size_t at = 0;
  for (size_t end; std::ssize(steps) < most && (end = text.find('\n', at)) != std::string::npos;
       at = end + 1) {
    const Json step = parse_json(std::string_view(text).substr(at, end - at),
                                 (run / "metrics.jsonl").string(), std::ssize(steps) + 1);
    if (step.at("step").as_int() >= bodies) break;
    steps.push_back(without_speed(step));
  }
  return steps;
}

// Checks that the lock has the data files that the run's cache keys name by digest.
void check_data(const RunFiles& run, const BundleLock& lock) {
  const Json* inputs = run.record.find("inputs");
  const Json* sets = inputs == nullptr ? nullptr : inputs->find("data");
  if (sets == nullptr || !sets->is_object()) return;
  for (const auto& [number, set] : sets->as_object()) {
    const Json* keys = set.find("keys");
    if (keys == nullptr || !keys->is_array()) continue;
    for (const Json& key : keys->as_array()) {
      for (const Json& file : key.at("files").as_array()) {
        const std::string digest = text_member(file, "xxh3"), name = text_member(file, "name");
        // Found by digest, since the run may have opened the file under another path.
        const bool locked =
            std::any_of(lock.inputs.begin(), lock.inputs.end(), [&](const auto& one) {
              return std::any_of(one.files.begin(), one.files.end(),
                                 [&](const LockedFile& other) { return other.xxh3 == digest; });
            });
        XRUN_CHECK(locked, "{} has changed since the run read it", name);
      }
    }
  }
}

std::string value_text(const Json* value) {
  return value == nullptr ? "absent" : dump_json(*value);
}

// metrics.jsonl has null where a value is not finite.
bool is_no_number(const Json& value) {
  return !value.is_number() || !std::isfinite(value.as_double());
}

bool same_bits(const Json& a, const Json& b) {
  if (is_no_number(a) || is_no_number(b)) return is_no_number(a) && is_no_number(b);
  return std::bit_cast<uint64_t>(a.as_double()) == std::bit_cast<uint64_t>(b.as_double());
}

double relative_difference(const Json* a, const Json* b) {
  if (a == nullptr || b == nullptr || !a->is_number() || !b->is_number()) {
    return std::numeric_limits<double>::infinity();
  }
  const double x = a->as_double(), y = b->as_double();
  // 1e-300: 0 and -0 differ in their bits, by nothing.
  return std::abs(x - y) / std::max({std::abs(x), std::abs(y), 1e-300});
}

std::string field_of(const Json& object, const char* name) {
  const Json* value = object.find(name);
  return value == nullptr ? "" : dump_json(*value);
}

}  // namespace

Json deciding_settings(const Json& config) {
  Json out = Json::object();
  for (const auto& [key, value] : config.as_object()) {
    const auto free = std::find(kFreeSettings.begin(), kFreeSettings.end(), key);
    if (free == kFreeSettings.end()) out.set(key, value);
  }
  return out;
}

std::string settings_changed_later(const fs::path& run) {
  std::string fields;
  for (const ChangedResume& resume : changed_resumes(read_run_record(run))) {
    for (const std::string& path : resume.changed) {
      const bool decides = std::none_of(
          kFreeSettings.begin(), kFreeSettings.end(),
          [&](std::string_view free) { return path.starts_with(fmt::format("config.{}.", free)); });
      if (decides) add_item(fields, path);
    }
  }
  return fields;
}

LockedRun record_first_steps(const fs::path& dir, const BundleLock& lock,
                             const std::string& recipe_text, const Json& run_binary, int64_t most) {
  const RunFiles run = read_run_files(dir);
  for (const std::string& notice : run.notices) {
    // A file that cannot be read would look like different settings.
    const bool decides = notice.starts_with("config.json") || notice.starts_with("recipe.lua");
    XRUN_CHECK(!decides, "{}", notice);
  }
  XRUN_CHECK(run.recipe == recipe_text, "the recipe has changed since the run");
  const auto settings =
      find_differences(deciding_settings(run.config), deciding_settings(lock.config), "config");
  XRUN_CHECK(settings.empty(), "its settings differ:\n{}", describe_differences(settings));
  const Json* binary = run.record.find("binary");
  const auto program = find_differences(binary == nullptr ? Json() : *binary, run_binary, "binary");
  XRUN_CHECK(program.empty(), "a different build of xrun trained it:\n{}",
             describe_differences(program));
  XRUN_CHECK(!is_interactive(run.record),
             "a prompt was opened in it, so its recipe alone does not give its numbers");
  check_data(run, lock);
  const auto object = [&](const char* name) {
    const Json* value = run.record.find(name);
    return value != nullptr && value->is_object() ? *value : Json::object();
  };
  LockedRun out{
      .machine = object("machine"),
      // Only what decides bits: a bundle reveals no more about the machine than it must.
      .environment = Json(Json::Object{{"cpu", text_member(object("environment"), "cpu")}}),
      .date = text_member(run.record, "date"),
      .measured = object("measured"),
      .steps = first_steps(dir, steps_done(run), most)};
  XRUN_CHECK(!out.steps.empty(), "it has no step yet");
  return out;
}

std::optional<StepDifference> compare_step(const Json& recorded, const Json& now) {
  std::optional<StepDifference> worst;
  const auto note = [&](const std::string& name, const Json* a, const Json* b) {
    const double apart = relative_difference(a, b);
    if (worst && apart <= worst->relative) return;
    worst = StepDifference{.step = recorded.at("step").as_int(),
                           .metric = name,
                           .recorded = value_text(a),
                           .now = value_text(b),
                           .relative = apart};
  };
  for (const auto& [name, value] : recorded.as_object()) {
    const Json* other = now.find(name);
    if (other == nullptr || !same_bits(value, *other)) note(name, &value, other);
  }
  for (const auto& [name, value] : now.as_object()) {
    if (!is_speed(name) && recorded.find(name) == nullptr) note(name, nullptr, &value);
  }
  return worst;
}

std::vector<std::string> machine_differences(const LockedRun& recorded, const Json& machine,
                                             const Json& environment) {
  std::vector<std::string> out;
  const auto compare = [&](const Json& a, const Json& b, const char* name) {
    const std::string before = field_of(a, name), after = field_of(b, name);
    if (before != after) out.push_back(fmt::format("{}: {} -> {}", name, before, after));
  };
  compare(recorded.machine, machine, "device");
  compare(recorded.machine, machine, "threads");
  compare(recorded.environment, environment, "cpu");
  return out;
}

}  // namespace xrun
