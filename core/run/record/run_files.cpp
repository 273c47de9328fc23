// run.json must be readable. Any other file may be missing, torn or damaged: the run may have been
// killed, or may still be writing.

#include "core/run/record/run_files.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/config/config_scan.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostSampleBytes = uint64_t{64} << 20;  // of one step's answers
constexpr size_t kListedRuns = 5;

// Returns false for a run that was killed before its first step ended.
bool has_step(const fs::path& run) {
  std::error_code code;
  return fs::file_size(run / "metrics.jsonl", code) > 0 && !code;
}

// Returns "; these below it are runs: a, b" for a folder of runs, else "".
std::string runs_below(const fs::path& dir) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator at(dir, code), end; !code && at != end; at.increment(code)) {
    if (!is_file(at->path() / "run.json") || !has_step(at->path())) continue;
    names.push_back(at->path().string());
  }
  if (names.empty()) return "";
  std::sort(names.begin(), names.end());
  return "; these below it are runs: " + listed(names, kListedRuns);
}

void check_is_run(const fs::path& dir) {
  if (is_file(dir / "run.json")) return;
  std::error_code code;
  if (!fs::exists(dir, code)) {
    throw UsageError(
        fmt::format("{}: this folder does not exist; wanted the folder of a run", dir.string()));
  }
  throw UsageError(
      fmt::format("{}: is not a run: it has no run.json{}", dir.string(), runs_below(dir)));
}

// Reads an optional file by `read`. A missing or damaged file becomes a notice.
template <class Read>
void read_optional(RunFiles& run, const char* name, const char* without, Read read) {
  const fs::path path = run.dir / name;
  try {
    // path_exists throws for a folder that may not be read, and the error becomes the notice.
    if (path_exists(path)) {
      read(path);
      return;
    }
    if (*without != '\0') run.notices.push_back(fmt::format("{} is missing: {}", name, without));
  } catch (const Error& error) {
    run.notices.push_back(fmt::format("{} cannot be read: {}", name, error.what()));
  }
}

Json read_object(const fs::path& path) {
  Json value = read_json(path.string());
  XRUN_CHECK(value.is_object(), "{}: holds {}, wanted an object", path.string(), value.kind_name());
  return value;
}

Json object_member(const Json& value, std::string_view key) {
  const Json* member = value.find(key);
  return member != nullptr && member->is_object() ? *member : Json::object();
}

void read_samples_file(RunFiles& run, const fs::path& path, int64_t step) {
  const std::string name = "samples/" + path.filename().string();
  const std::string bytes = read_file(path, kMostSampleBytes);
  RunSamples samples{step, {}};
  int64_t line = 1;
  for (size_t at = 0; at < bytes.size(); ++line) {
    // A blank rest after the last line feed is not a line: `at` is then at the end.
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    Json answer = parse_json(std::string_view(bytes).substr(at, end - at), name, line);
    XRUN_CHECK(answer.is_object(), "{}:{}: holds {}, wanted an object", name, line,
               answer.kind_name());
    samples.answers.push_back(std::move(answer));
    at = end + 1;
  }
  run.samples.push_back(std::move(samples));
}

void read_samples(RunFiles& run) {
  std::vector<StepFile> files = step_files(run.dir / "samples", ".jsonl");
  // The first and the last answers show what training changed; the others would only fill the page.
  if (files.size() > 2) {
    run.samples_left_out = std::ssize(files) - 2;
    files.erase(files.begin() + 1, files.end() - 1);
  }
  for (const auto& [step, path] : files) {
    try {
      read_samples_file(run, path, step);
    } catch (const Error& error) {
      run.notices.push_back(
          fmt::format("samples of step {} cannot be read: {}", step, error.what()));
    }
  }
}

void read_rollout_files(RunFiles& run) {
  std::vector<int64_t> steps = rollout_steps(run.dir);
  if (steps.size() > 2) steps.erase(steps.begin() + 1, steps.end() - 1);
  for (const int64_t step : steps) {
    try {
      run.rollouts.push_back(read_rollouts(run.dir, step));
    } catch (const Error& error) {
      run.notices.push_back(
          fmt::format("rollouts of step {} cannot be read: {}", step, error.what()));
    }
  }
}

// Reads the manifest that checkpoints/latest names, without its files: a resume checks those.
void read_checkpoint(RunFiles& run) {
  const fs::path dir = run.dir / "checkpoints";
  if (!is_file(dir / "latest")) return;
  try {
    std::string name = read_file(dir / "latest", 4096);
    while (!name.empty() && name.back() == '\n') name.pop_back();
    // A damaged `latest` must not lead out of the folder.
    XRUN_CHECK(!name.empty() && name.find('/') == std::string::npos,
               "`latest` does not name a folder");
    run.checkpoint = read_object(dir / name / "manifest.json");
  } catch (const Error& error) {
    run.notices.push_back(fmt::format("the newest checkpoint cannot be read: {}", error.what()));
  }
}

// The last component of a path, of "runs/a/" too.
std::string own_name(const fs::path& dir) {
  std::error_code code;
  // "runs/a/" and "." have no file name of their own.
  const fs::path whole = fs::weakly_canonical(dir, code);
  const std::string name = (code ? dir : whole).filename().string();
  return name.empty() ? dir.string() : name;
}

}  // namespace

Json read_run_record(const fs::path& dir) {
  try {
    return read_object(dir / "run.json");
  } catch (const Error& error) {
    throw Error(fmt::format("{}; put back a copy of the file, or start another run (--run DIR)",
                            error.what()));
  }
}

void check_run_format(const Json& record, const fs::path& dir) {
  const Json* format = record.find("format");
  if (format == nullptr) return;
  XRUN_CHECK(format->is_int() && format->as_int() > 0,
             "{}: its format is {}, wanted a whole number of at least 1; the file is damaged",
             (dir / "run.json").string(), dump_json(*format, {.ascii = true}));
  if (format->as_int() <= kRunFormat) return;
  throw UsageError(
      fmt::format("{}: is a run of format {}, this xrun reads formats up to {}; use the xrun that "
                  "made it, or a newer one",
                  dir.string(), format->as_int(), kRunFormat));
}

int64_t steps_done(const RunFiles& run) {
  const Json* steps = run.record.find("steps");
  // Without a count in the record, from the last line: steps count from 0.
  return steps != nullptr && steps->is_int() ? steps->as_int() : run.metrics.last_step + 1;
}

RunFiles read_run_files(const fs::path& dir) {
  check_is_run(dir);
  RunFiles run;
  run.dir = dir;
  run.name = own_name(dir);
  run.record = read_run_record(dir);
  check_run_format(run.record, dir);
  run.config = run.origins = Json::object();
  read_optional(run, "config.json", "the settings are unknown", [&](const fs::path& path) {
    const Json whole = read_object(path);
    run.config = object_member(whole, "config");
    run.origins = object_member(whole, "origins");
  });
  read_optional(run, "recipe.lua", "the recipe's text is unknown",
                [&](const fs::path& path) { run.recipe = read_file(path, kMostRecipeBytes); });
  read_optional(run, "ledger.json", "the counts of rows are unknown",
                [&](const fs::path& path) { run.ledger = read_object(path); });
  read_optional(run, "profile.json", "",
                [&](const fs::path& path) { run.profile = read_object(path); });
  read_optional(run, "metrics.jsonl", "nothing was logged", [&](const fs::path& path) {
    run.metrics = read_metrics(path);
    run.notices.insert(run.notices.end(), run.metrics.notices.begin(), run.metrics.notices.end());
  });
  read_samples(run);
  read_rollout_files(run);
  read_checkpoint(run);
  return run;
}

std::vector<RunFiles> read_runs(const std::vector<std::string>& dirs) {
  std::vector<RunFiles> runs;
  std::map<std::string, int> names;
  for (const std::string& dir : dirs) {
    runs.push_back(read_run_files(dir));
    ++names[runs.back().name];
  }
  for (RunFiles& run : runs) {
    // Two runs of one name are told apart by their paths.
    if (names[run.name] > 1) run.name = run.dir.string();
  }
  return runs;
}

std::string value_of(const Json* value) {
  if (value == nullptr) return "";
  return value->is_string() ? value->as_string() : dump_json(*value);
}

}  // namespace xrun
