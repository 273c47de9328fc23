// A difference counts if it can change a result. Two paths to the same bytes, comments in the
// recipe, and the machine do not count.

#include "core/run/record/run_comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/config/lua_source.h"
#include "core/run/record/difference.h"
#include "core/run/record/metrics_file.h"

namespace xrun {

namespace {

const Json& object_at(const Json& value, std::initializer_list<std::string_view> path) {
  static const Json kNone = Json::object();
  // Any missing key, or a value that is not an object, reads as an empty object.
  const Json* at = &value;
  for (const std::string_view key : path) at = at == nullptr ? nullptr : at->find(key);
  return at != nullptr && at->is_object() ? *at : kNone;
}

// Removes the quotes of a string in JSON.
std::string bare(const std::string& text) {
  const bool quoted = text.size() > 1 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

void add_differences(const Json& a, const Json& b, const std::string& name,
                     std::vector<FactDifference>& out) {
  for (const Difference& difference : find_differences(a, b, name)) {
    out.push_back({difference.path, bare(difference.before), bare(difference.now)});
  }
}

// ---- data

// "xxh3 xxh3": the digests of the files in a cache key.
std::string file_digests(const Json& key) {
  const Json* files = key.find("files");
  std::string out;
  if (files == nullptr || !files->is_array()) return out;
  for (const Json& file : files->as_array()) {
    add_item(out, value_of(file.find("xxh3")), " ");
  }
  return out;
}

const Json::Array& keys_of(const Json& input) {
  static const Json::Array kNone;
  const Json* keys = input.find("keys");
  return keys != nullptr && keys->is_array() ? keys->as_array() : kNone;
}

// A source's cache key without the names by which its files were found.
Json content_of(const Json& key) {
  Json out = Json::object();
  if (!key.is_object()) return out;
  for (const auto& [name, value] : key.as_object()) {
    if (name == "name" || name == "template") continue;  // template_digest covers its text
    out.set(name, name == "files" ? Json(file_digests(key)) : value);
  }
  return out;
}

Json contents_of(const Json& input) {
  Json out = Json::object();
  // The order of sources is part of the run, so they are compared by number.
  int64_t source = 0;
  for (const Json& key : keys_of(input)) {
    out.set(fmt::format("source {}", ++source), content_of(key));
  }
  // Records without keys have one digest for the set.
  if (source == 0) out.set("digest", value_of(input.find("digest")));
  return out;
}

Json data_contents(const RunFiles& run) {
  Json out = Json::object();
  for (const auto& [name, input] : object_at(run.record, {"inputs", "data"}).as_object()) {
    out.set(name, contents_of(input));
  }
  return out;
}

// Returns the plan of each loop without its digests: they cover file names too, and all else that
// they cover is in the data and in the other fields.
Json loops_of(const RunFiles& run) {
  Json out = Json::array();
  const Json* loops = run.record.find("data");
  if (loops == nullptr || !loops->is_array()) return out;
  for (const Json& loop : loops->as_array()) {
    Json plan = Json::object();
    if (loop.is_object()) {
      for (const auto& [name, value] : loop.as_object()) {
        if (name != "fingerprint" && name != "plan_hash") plan.set(name, value);
      }
    }
    out.push_back(std::move(plan));
  }
  return out;
}

// Counts of rows (in, kept, dropped, ...) of each source, in order.
Json row_counts(const RunFiles& run) {
  Json out = Json::array();
  const Json* sources = run.ledger.find("sources");
  if (sources == nullptr || !sources->is_array()) return out;
  for (const Json& source : sources->as_array()) {
    Json counts = Json::object();
    for (const char* name : {"rows", "kept", "dropped", "cut", "cut_tokens", "repaired", "tokens",
                             "trained_tokens", "zero_weight"}) {
      if (const Json* count = source.find(name)) counts.set(name, *count);
    }
    out.push_back(std::move(counts));
  }
  return out;
}

// The digests of the files that a run read under a name, "" if it read none.
std::string bytes_under(const RunFiles& run, const std::string& name) {
  for (const auto& [set, input] : object_at(run.record, {"inputs", "data"}).as_object()) {
    for (const Json& key : keys_of(input)) {
      if (value_of(key.find("name")) == name) return file_digests(key);
    }
  }
  return "";
}

// ---- config

std::string note_for(const RunFiles& a, const RunFiles& b, const SettingDifference& setting) {
  if (!setting.key.ends_with(".path")) return "";
  // Two paths are excused if the same bytes were read from both.
  const std::string bytes = bytes_under(a, setting.a);
  return !bytes.empty() && bytes == bytes_under(b, setting.b) ? "the same bytes" : "";
}

void compare_settings(const RunFiles& a, const RunFiles& b, RunComparison& out) {
  const std::vector<Setting> first = flat_settings(a.config, a.origins);
  const std::vector<Setting> second = flat_settings(b.config, b.origins);
  std::map<std::string_view, const Setting*> in_b;
  // Keys that are still in in_b at the end are only in b.
  for (const Setting& setting : second) in_b.emplace(setting.key, &setting);
  const auto add = [&](SettingDifference one) {
    one.note = note_for(a, b, one);
    out.settings.push_back(std::move(one));
  };
  for (const Setting& setting : first) {
    const auto found = in_b.find(setting.key);
    if (found == in_b.end()) {
      add({setting.key, value_of(&setting.value), "absent", setting.origin, "", ""});
      continue;
    }
    const Setting& other = *found->second;
    in_b.erase(found);
    if (setting.value == other.value) continue;
    add({setting.key, value_of(&setting.value), value_of(&other.value), setting.origin,
         other.origin, ""});
  }
  for (const Setting& setting : second) {
    if (in_b.count(setting.key) == 0) continue;
    add({setting.key, "absent", value_of(&setting.value), "", setting.origin, ""});
  }
}

// ---- code

bool same_to_lua(const std::string& a, const std::string& b) {
  const std::vector<LuaToken> first = lex_lua(a);
  const std::vector<LuaToken> second = lex_lua(b);
  // By tokens: comments, blanks and the spelling of numbers do not change a program.
  return std::equal(first.begin(), first.end(), second.begin(), second.end(),
                    [](const LuaToken& x, const LuaToken& y) {
                      if (x.kind == LuaTokenKind::kBad || x.kind != y.kind) return false;
                      if (x.kind != LuaTokenKind::kNumber) return x.text == y.text;
                      // The text of a number is its spelling.
                      return std::bit_cast<uint64_t>(x.number) == std::bit_cast<uint64_t>(y.number);
                    });
}

void compare_code(const RunFiles& a, const RunFiles& b, RunComparison& out) {
  out.recipe_known = !a.recipe.empty() && !b.recipe.empty();
  if (out.recipe_known && a.recipe != b.recipe) {
    out.recipe = diff_lines(a.recipe, b.recipe);
    out.recipe_same = same_to_lua(a.recipe, b.recipe);
  }
  add_differences(object_at(a.record, {"binary"}), object_at(b.record, {"binary"}), "binary",
                  out.program);
  add_differences(object_at(a.record, {"inputs", "modules"}),
                  object_at(b.record, {"inputs", "modules"}), "modules", out.program);
  // With a prompt in both they may still differ: neither recipe holds the typed inputs.
  const bool prompt_a = is_interactive(a.record), prompt_b = is_interactive(b.record);
  if (prompt_a || prompt_b) {
    out.program.push_back({"a prompt was opened", prompt_a ? "yes, see log.txt" : "no",
                           prompt_b ? "yes, see log.txt" : "no"});
  }
}

// ---- results

std::string exact(double value) { return std::isnan(value) ? "null" : shortest_decimal(value); }

void compare_series(const MetricSeries& a, const MetricSeries& b, RunComparison& out) {
  // Common steps only: the number of steps is compared elsewhere.
  const auto divergence = first_step_where(
      a, b, [](const StepValues& at) { return at.a && at.b && !same_value(*at.a, *at.b); });
  // The earliest step wins; metrics that diverge at the same step are listed together.
  if (divergence && (out.first_divergence < 0 || divergence->step < out.first_divergence)) {
    out.first_divergence = divergence->step;
    out.diverging.clear();
  }
  if (divergence && divergence->step == out.first_divergence) {
    out.diverging.push_back({a.name, exact(*divergence->a), exact(*divergence->b)});
  }
  if (!same_value(a.values.back(), b.values.back())) {
    out.finals.push_back(
        {a.name, a.steps.back(), b.steps.back(), a.values.back(), b.values.back()});
  }
}

Json weight_digests(const RunFiles& run) {
  Json out = Json::object();
  for (const auto& [name, file] : object_at(run.checkpoint, {"files"}).as_object()) {
    if (name.ends_with(".safetensors")) out.set(name, value_of(file.find("xxh3")));
  }
  return out;
}

void compare_results(const RunFiles& a, const RunFiles& b, RunComparison& out) {
  out.steps_a = steps_done(a);
  out.steps_b = steps_done(b);
  out.common_lines = std::min(a.metrics.objects, b.metrics.objects);
  for (const MetricSeries& series : a.metrics.series) {
    if (!is_result(series)) continue;
    const MetricSeries* other = b.metrics.find(series.name);
    if (other == nullptr) {
      out.only_a.push_back(series.name);
    } else {
      compare_series(series, *other, out);
    }
  }
  for (const MetricSeries& series : b.metrics.series) {
    if (is_result(series) && a.metrics.find(series.name) == nullptr) {
      out.only_b.push_back(series.name);
    }
  }
  // Weights of different steps always differ.
  if (value_of(a.checkpoint.find("step")) == value_of(b.checkpoint.find("step"))) {
    add_differences(weight_digests(a), weight_digests(b), "", out.weights);
  }
}

void add_resumes(const RunFiles& run, std::vector<ChangedResume>& out) {
  for (ChangedResume& one : changed_resumes(run.record)) {
    one.run = run.name;
    out.push_back(std::move(one));
  }
}

}  // namespace

bool RunComparison::settings_differ() const {
  // A setting with a note does not change the result.
  return std::any_of(settings.begin(), settings.end(),
                     [](const SettingDifference& one) { return one.note.empty(); });
}

std::vector<std::string> RunComparison::data_settings() const {
  std::vector<std::string> keys;
  for (const SettingDifference& one : settings) {
    const std::string top = one.key.substr(0, one.key.find('.'));
    const ConfigField* field = find_config_field(top);
    const bool decides = top == "data" || top == "valid" || top == "batch" || top == "model" ||
                         (field != nullptr && field->of_data_set);
    if (decides && one.note.empty()) keys.push_back(one.key);
  }
  return keys;
}

bool RunComparison::results_differ() const {
  if (!results_known) return false;
  return steps_a != steps_b || first_divergence >= 0 || !only_a.empty() || !only_b.empty() ||
         !finals.empty() || !weights.empty();
}

bool RunComparison::same() const {
  return !settings_differ() && !code_differs() && !data_differ() && !results_differ();
}

RunComparison compare_runs(const RunFiles& a, const RunFiles& b) {
  RunComparison out;
  out.name_a = a.name;
  out.name_b = b.name;
  compare_settings(a, b, out);
  compare_code(a, b, out);
  add_differences(data_contents(a), data_contents(b), "data", out.data);
  add_differences(object_at(a.record, {"inputs", "locked"}),
                  object_at(b.record, {"inputs", "locked"}), "", out.data);
  add_differences(loops_of(a), loops_of(b), "loop", out.data);
  add_differences(row_counts(a), row_counts(b), "rows", out.data);
  for (const char* name : {"machine", "environment"}) {
    add_differences(object_at(a.record, {name}), object_at(b.record, {name}), name, out.machine);
  }
  compare_results(a, b, out);
  add_resumes(a, out.resumes);
  add_resumes(b, out.resumes);
  return out;
}

}  // namespace xrun
