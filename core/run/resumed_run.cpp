// A run is a folder with run.json. A folder with a lock but no run.json is a run that was killed
// while it started; it is resumed from its beginning.

#include "core/run/resumed_run.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/run/record/run_files.h"
#include "core/run/resume.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr const char* kRuns = "runs";
constexpr int64_t kMostThreads = 4096;  // a damaged run.json must not exhaust the machine

bool was_started(const fs::path& dir) { return is_file(dir / "run.json") || is_file(dir / "lock"); }

// Returns the runs in a folder, sorted by name.
std::vector<fs::path> runs_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (is_file(at->path() / "run.json")) found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Returns the time at which a run last wrote something.
fs::file_time_type last_written(const fs::path& run) {
  fs::file_time_type newest = fs::file_time_type::min();
  for (const char* name : {"run.json", "metrics.jsonl", "checkpoints/latest"}) {
    std::error_code code;
    const auto time = fs::last_write_time(run / name, code);
    if (!code) newest = std::max(newest, time);
  }
  return newest;
}

// True for "dpo-1a2b3c4d".
bool is_run_of(const std::string& recipe, const fs::path& run) {
  const std::string name = run.filename().string();
  return name.size() == recipe.size() + 9 && name.starts_with(recipe + "-");
}

std::optional<fs::path> newest_run_of(const std::string& recipe) {
  std::optional<fs::path> newest;
  for (const fs::path& run : runs_in(kRuns)) {
    if (!is_run_of(recipe, run)) continue;
    if (!newest || last_written(run) > last_written(*newest)) newest = run;
  }
  return newest;
}

[[noreturn]] void throw_missing(const std::string& recipe, const fs::path& dir) {
  fs::path folder = dir.parent_path();
  if (folder.empty()) folder = ".";
  std::vector<std::string> names;
  for (const fs::path& run : runs_in(folder)) names.push_back(run.filename().string());
  std::string hint = did_you_mean(dir.filename().string(), names);
  const std::optional<fs::path> newest = hint.empty() ? newest_run_of(recipe) : std::nullopt;
  if (newest) hint = fmt::format("; the newest run of {} is {}", recipe, newest->string());
  std::error_code ignored;
  throw UsageError(fmt::format(
      "{}: {}; wanted the folder of a run{}", dir.string(),
      fs::exists(dir, ignored) ? "this folder contains no run" : "this folder does not exist",
      hint));
}

fs::path folder_of(const std::string& recipe, const fs::path& dir, const fs::path& own) {
  if (!dir.empty()) {
    if (!was_started(dir)) throw_missing(recipe, dir);
    return dir;
  }
  // The settings given may name the run exactly; otherwise the newest is meant.
  if (!own.empty() && was_started(own)) return own;
  if (const auto newest = newest_run_of(recipe)) return *newest;
  throw UsageError(fmt::format(
      "there is no run of {0} in {1}/, so there is nothing to resume; leave --resume out to start "
      "one, or name the folder of a run with --run DIR",
      recipe, kRuns));
}

// Reads the device and threads of the process that last continued the run: the bits depend on both.
void read_machine(ResumedRun& run) {
  const Json record = read_run_record(run.dir);
  const Json* machine = record.find("machine");
  if (machine == nullptr || !machine->is_object()) return;
  if (const Json* device = machine->find("device"); device && device->is_string()) {
    run.device = device->as_string();
  }
  if (const Json* threads = machine->find("threads"); threads && threads->is_number()) {
    run.threads = static_cast<int>(std::clamp<int64_t>(threads->as_int(), 0, kMostThreads));
  }
}

std::string key_of(const std::string& set) { return set.substr(0, set.find('=')); }

// Returns (key, path) of the model, of a new model's tokenizer, and of each source; "" where a
// value is not a path.
std::vector<std::pair<std::string, std::string>> paths_of(const Json& config) {
  std::vector<std::pair<std::string, std::string>> paths{{"model", text_member(config, "model")}};
  if (const Json* model = config.find("model"); model != nullptr && model->is_object()) {
    paths.emplace_back("model.tokenizer", text_member(*model, "tokenizer"));
  }
  const Json* data = config.find("data");
  for (size_t i = 0; data != nullptr && data->is_array() && i < data->size(); ++i) {
    const Json& source = data->as_array()[i];
    if (!source.is_object()) continue;
    paths.emplace_back(fmt::format("data.{}.path", i + 1), text_member(source, "path"));
  }
  return paths;
}

}  // namespace

std::string compare_recipe(const fs::path& dir, const fs::path& recipe, const std::string& text,
                           bool force) {
  const fs::path own_text = dir / "recipe.lua";
  if (!is_file(dir / "run.json") || !is_file(own_text)) return "";
  const std::string name = text_member(read_run_record(dir), "recipe");
  if (name.empty() || name == recipe_name(recipe)) return "";
  if (without_lengths(read_file(own_text)) == without_lengths(text)) return "";
  return resume_notice(ResumeItem::kRecipe,
                       fmt::format("{}.lua (its text is {}), and {} is another recipe", name,
                                   own_text.string(), recipe.string()),
                       {}, dir, force);
}

void check_working_folder(const fs::path& dir, const std::vector<std::string>& given) {
  if (!is_file(dir / "run.json") || !is_file(dir / "config.json")) return;
  const fs::path began = text_member(read_run_record(dir), "folder");
  if (began.empty()) return;
  const Json config = read_json((dir / "config.json").string());
  const Json* values = config.find("config");
  if (values == nullptr || !values->is_object()) return;
  for (const auto& [key, path] : paths_of(*values)) {
    const bool replaced = std::any_of(given.begin(), given.end(), [&](const std::string& set) {
      return key == key_of(set) || key.starts_with(key_of(set) + ".");
    });
    std::error_code ignored;
    if (path.empty() || replaced || fs::exists(path, ignored) ||
        !fs::exists(began / path, ignored)) {
      continue;
    }
    throw UsageError(
        fmt::format("{}: the run began in {}, where {} is \"{}\", which is not here; resume from "
                    "there: cd {}",
                    dir.string(), began.string(), key, path, shell_word(began.string())));
  }
}

ResumedRun find_resumed_run(const std::string& recipe, const fs::path& dir, const fs::path& own) {
  ResumedRun run;
  run.dir = folder_of(recipe, dir, own);
  const fs::path config = run.dir / "config.json";
  // Killed while it started: there is nothing to take over.
  if (!is_file(run.dir / "run.json") || !is_file(config)) return run;
  read_machine(run);
  const Json saved = read_json(config.string());
  const Json* sets = saved.find("sets");
  if (sets == nullptr) return run;
  for (const Json& set : sets->as_array()) run.sets.push_back(set.as_string());
  return run;
}

std::vector<std::string> joined_sets(std::vector<std::string> of_run,
                                     const std::vector<std::string>& given) {
  // Only one of the two decides the length of a run.
  const auto other_length = [](const std::string& key) {
    return key == "steps" ? "epochs" : key == "epochs" ? "steps" : "";
  };
  for (const std::string& set : given) {
    // Replaced, not repeated: config.json would otherwise grow with every resume.
    std::erase_if(of_run, [&](const std::string& old) {
      return key_of(old) == key_of(set) || key_of(old) == other_length(key_of(set));
    });
    of_run.push_back(set);
  }
  return of_run;
}

}  // namespace xrun
