// Recipes and bundles are converted to the form of a run's files; then both sides are reduced to
// what both have.

#include "core/share/number_comparison.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/bundle/bundle_file.h"
#include "core/config/config_base.h"
#include "core/data/cache/data_files.h"
#include "core/share/recipe_sources.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

Json files_of(const Json& files) { return Json(Json::Object{{"files", files}}); }

// {"inputs": {"data": {"1": {"keys": [...]}}, "modules": {...}}}, as run.json has it, and "locked":
// digests of a bundle's other inputs.
Json record_of(Json keys, Json modules, Json locked = Json::object()) {
  Json set(Json::Object{{"keys", std::move(keys)}});
  Json data(Json::Object{{"1", std::move(set)}});
  Json inputs(Json::Object{
      {"data", std::move(data)}, {"modules", std::move(modules)}, {"locked", std::move(locked)}});
  return Json(Json::Object{{"inputs", std::move(inputs)}});
}

Json data_key(const std::string& name, Json files) {
  Json key = files_of(std::move(files));
  key.set("name", name);
  return key;
}

// The path of a module in the folder of its recipe.
std::string module_name(const std::string& member) {
  constexpr std::string_view kCode = "recipe/";
  return member.starts_with(kCode) ? member.substr(kCode.size()) : member;
}

// Digest over all files of an input, by name.
std::string digest_of(const LockedInput& input) {
  std::string text;
  // Names and digests alone, since paths differ by machine.
  for (const LockedFile& file : input.files) text += file.name + "\n" + file.sha256 + "\n";
  return hash_hex(text);
}

// ---- a bundle

// The recorded steps as metrics.jsonl would have them.
RunMetrics metrics_of(const LockedRun& run) {
  RunMetrics metrics;
  std::map<std::string, size_t> known;
  for (const Json& step : run.steps) {
    ++metrics.objects;
    metrics.last_step = step.at("step").as_int();
    for (const auto& [name, value] : step.as_object()) {
      // The step is the axis of the series, not a metric.
      if (name == "step") continue;
      const auto [at, made] = known.emplace(name, metrics.series.size());
      if (made) metrics.series.push_back({.name = name, .steps = {}, .values = {}});
      MetricSeries& series = metrics.series[at->second];
      series.steps.push_back(metrics.last_step);
      // JSON has no NaN, so the lock has null in its place.
      series.values.push_back(value.is_number() ? value.as_double()
                                                : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return metrics;
}

RunFiles files_of_bundle(const std::string& file) {
  const Bundle bundle = Bundle::open(file);
  const BundleLock& lock = bundle.lock();
  RunFiles out;
  out.name = file;
  out.config = lock.config;
  out.origins = lock.origins;
  out.recipe = bundle.text(lock.recipe);
  Json keys = Json::array(), modules = Json::object(), locked = Json::object();
  for (const LockedInput& input : lock.inputs) {
    if (input.kind != InputKind::kData) {
      locked.set(fmt::format("{} {}", input_kind_name(input.kind), input.name), digest_of(input));
      continue;
    }
    Json files = Json::array();
    for (const LockedFile& one : input.files)
      files.push_back(Json(Json::Object{{"xxh3", one.xxh3}}));
    keys.push_back(data_key(input.name, std::move(files)));
  }
  for (const LockedFile& member : lock.members) {
    // The recipe is compared as text, modules by their digests.
    if (!member.name.starts_with("recipe/") || member.name == lock.recipe) continue;
    modules.set(module_name(member.name), hash_hex(bundle.text(member.name)));
  }
  out.record = record_of(std::move(keys), std::move(modules), std::move(locked));
  if (lock.run) out.metrics = metrics_of(*lock.run);
  return out;
}

// ---- a recipe

RunFiles files_of_recipe(const std::string& file, std::vector<std::string>& notices) {
  const ScannedRecipe scanned = scan_with_bases(file, read_file(file, kMostRecipeBytes));
  const Config config = Config::resolve(scanned);
  const RecipeSources sources = read_recipe_sources(file, scanned, config);
  RunFiles out;
  out.name = file;
  out.config = config.values();
  out.origins = config.to_json().at("origins");
  out.recipe = scanned.text;
  Json keys = Json::array(), modules = Json::object();
  try {
    const FileDigests digests(cache_root() / kFileDigestsFolder);
    for (const NamedInput& input : sources.inputs) {
      if (input.kind != InputKind::kData) continue;
      keys.push_back(
          data_key(input.name, data_files_json(find_data_files(input.name, {}, digests))));
    }
  } catch (const Error& error) {
    notices.push_back(fmt::format("the data are not compared: {}: {}", file, error.what()));
    keys = Json();
  }
  for (size_t i = 1; i < sources.files.size(); ++i) {
    modules.set(module_name(sources.files[i].member), hash_hex(sources.files[i].text));
  }
  out.record = record_of(std::move(keys), std::move(modules));
  return out;
}

// ---- what both have

// Reduces a run to its sources (names and digests), modules (names) and resumes.
RunFiles reduced(RunFiles run) {
  Json keys = Json::array(), modules = Json::object();
  const Json* inputs = run.record.find("inputs");
  const Json* sets = inputs == nullptr ? nullptr : inputs->find("data");
  if (sets != nullptr && sets->is_object()) {
    for (const auto& [number, set] : sets->as_object()) {
      const Json* of_set = set.find("keys");
      if (of_set == nullptr || !of_set->is_array()) continue;
      for (const Json& key : of_set->as_array()) {
        const Json* files = key.find("files");
        keys.push_back(data_key(text_member(key, "name"), files == nullptr ? Json() : *files));
      }
    }
  }
  const Json* loaded = inputs == nullptr ? nullptr : inputs->find("modules");
  if (loaded != nullptr && loaded->is_object()) {
    for (const auto& [path, module] : loaded->as_object()) {
      modules.set(path, module.is_object() ? text_member(module, "digest") : module);
    }
  }
  const Json* const resumes = run.record.find("resumes");
  Json record = record_of(std::move(keys), std::move(modules));
  if (resumes != nullptr) record.set("resumes", *resumes);
  run.record = std::move(record);
  // A bundle has neither, and an absent one would count as a difference.
  run.ledger = run.checkpoint = Json();
  return run;
}

// Sorts the sources by name, each once, since a recipe may open one twice. Returns false if the
// sources of one side are unknown, so that there is nothing to compare.
bool sort_keys(RunFiles& a, RunFiles& b) {
  const auto keys_of = [](RunFiles& files) -> Json& {
    return *files.record.find("inputs")->find("data")->find("1")->find("keys");
  };
  const bool known = keys_of(a).is_array() && keys_of(b).is_array();
  for (RunFiles* files : {&a, &b}) {
    Json& keys = keys_of(*files);
    std::map<std::string, Json> by_name;
    if (known) {
      for (const Json& key : keys.as_array()) by_name.emplace(text_member(key, "name"), key);
    }
    keys = Json::array();
    for (auto& [name, key] : by_name) keys.push_back(std::move(key));
  }
  return known;
}

Json& modules_of(RunFiles& files) { return *files.record.find("inputs")->find("modules"); }

// Keeps only modules that both have, by the name that `other` gives them: a run names the loaded
// ones by their paths; a bundle also has the bases of the config, by their paths below the recipe's
// folder.
void keep_common_modules(RunFiles& run, RunFiles& other) {
  Json of_run = Json::object(), of_other = Json::object();
  for (const auto& [path, digest] : modules_of(run).as_object()) {
    for (const auto& [name, own] : modules_of(other).as_object()) {
      if (path != name && !path.ends_with("/" + name)) continue;
      of_run.set(name, digest);
      of_other.set(name, own);
    }
  }
  modules_of(run) = std::move(of_run);
  modules_of(other) = std::move(of_other);
}

// A recipe and a run do not have the digests that a lock has.
void drop_locked(RunFiles& a, RunFiles& b, std::vector<std::string>& notices) {
  bool dropped = false;
  for (RunFiles* files : {&a, &b}) {
    Json& locked = *files->record.find("inputs")->find("locked");
    dropped = dropped || locked.size() > 0;
    locked = Json::object();
  }
  if (!dropped) return;
  notices.push_back("models, templates and projections are compared between two bundles alone");
}

// A bundle has the first steps only: later ones of a run do not count as a difference.
void keep_common_steps(RunFiles& a, RunFiles& b) {
  const int64_t last = std::min(a.metrics.last_step, b.metrics.last_step);
  const int64_t lines = std::min(a.metrics.objects, b.metrics.objects);
  for (RunFiles* files : {&a, &b}) {
    std::erase_if(files->metrics.series, [&](MetricSeries& series) {
      const auto end = std::upper_bound(series.steps.begin(), series.steps.end(), last);
      series.steps.erase(end, series.steps.end());
      series.values.resize(series.steps.size());
      return series.steps.empty();
    });
    files->metrics.last_step = last;
    files->metrics.objects = lines;
  }
}

bool is_run(const std::string& name) {
  std::error_code none;
  return fs::is_directory(name, none);
}

RunFiles compared_files(const std::string& name, std::vector<std::string>& notices) {
  if (is_bundle_name(name)) return files_of_bundle(name);
  if (name.ends_with(".lua")) return files_of_recipe(name, notices);
  RunFiles run = read_runs({name})[0];
  notices.insert(notices.end(), run.notices.begin(), run.notices.end());
  return reduced(std::move(run));
}

}  // namespace

RunComparison compare_numbers(const std::string& a, const std::string& b,
                              std::vector<std::string>& notices) {
  if (is_run(a) && is_run(b)) {
    const std::vector<RunFiles> runs = read_runs({a, b});
    for (const RunFiles& run : runs) {
      for (const std::string& notice : run.notices) {
        notices.push_back(fmt::format("{}: {}", run.name, notice));
      }
    }
    return compare_runs(runs[0], runs[1]);
  }
  RunFiles first = compared_files(a, notices), second = compared_files(b, notices);
  const bool data_known = sort_keys(first, second);
  if (is_run(a)) keep_common_modules(first, second);
  if (is_run(b)) keep_common_modules(second, first);
  if (!is_bundle_name(a) || !is_bundle_name(b)) drop_locked(first, second, notices);
  keep_common_steps(first, second);
  RunComparison comparison = compare_runs(first, second);
  comparison.data_known = data_known;
  // A recipe or bundle has read no rows on any machine.
  comparison.rows_known = false;
  comparison.machine_known = false;
  comparison.results_known = first.metrics.objects > 0 && second.metrics.objects > 0;
  return comparison;
}

}  // namespace xrun
