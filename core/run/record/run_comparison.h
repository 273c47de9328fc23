#pragma once
// The comparison of two runs, recipes or bundles (core/share/number_comparison.h): settings, code,
// data and results.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/line_diff.h"
#include "core/run/record/run_files.h"
#include "core/run/record/run_record.h"

namespace xrun {

// One value of both runs; "absent" for a run that lacks it.
struct FactDifference {
  std::string name;
  std::string a, b;
};

struct SettingDifference {
  std::string key;
  std::string a, b;  // "absent" for a side that lacks the key
  std::string origin_a, origin_b;
  std::string note;  // the reason why it changes nothing ("the same bytes"), else ""
};

// A metric that both logged, with different last values.
struct FinalDifference {
  std::string metric;
  int64_t step_a, step_b;
  double a, b;
};

struct RunComparison {
  std::string name_a, name_b;
  std::vector<SettingDifference> settings;
  bool recipe_known = true;             // both have their recipe.lua
  bool recipe_same = true;              // comments, blanks and the spelling of numbers aside
  std::vector<DiffLine> recipe;         // empty if the recipes are equal
  std::vector<FactDifference> program;  // xrun's own binaries, and modules that recipes require
  bool data_known = true;               // both say which files they read
  bool rows_known = true;               // false: only the files of the data were compared
  std::vector<FactDifference> data;     // digests, and the fields and rows they cover
  bool machine_known = true;            // both ran
  std::vector<FactDifference> machine;  // shown only: same() ignores them
  std::vector<ChangedResume> resumes;   // of both runs, in order; shown only
  // Results, speed (perf/*) aside. Values are compared bit by bit.
  bool results_known = true;                // false: one of them is a recipe, or has no step
  int64_t steps_a = 0, steps_b = 0;         // bodies done
  int64_t common_lines = 0;                 // of the two metrics.jsonl
  int64_t first_divergence = -1;            // the first common step with other values; -1: none
  std::vector<FactDifference> diverging;    // metrics that differ there
  std::vector<std::string> only_a, only_b;  // metrics that only one run logged
  std::vector<FinalDifference> finals;
  std::vector<FactDifference> weights;  // files of the newest checkpoints, by digest

  int64_t common_steps() const { return std::min(steps_a, steps_b); }
  bool settings_differ() const;
  // The keys of differing settings that decide rows, tokens or their order.
  std::vector<std::string> data_settings() const;
  bool code_differs() const { return !recipe_same || !program.empty(); }
  bool data_differ() const { return !data.empty(); }
  bool results_differ() const;
  bool same() const;
};

RunComparison compare_runs(const RunFiles& a, const RunFiles& b);

// {"runs", "same", "config": [{"key", "a", "b", "origin_a", "origin_b", "excuse"?}], "code":
// {"recipe_same", "recipe": [lines], "program": [{"name", "a", "b"}]}, "data": [...], "machine":
// [...], "results": {"steps", "common_lines", "first_apart" (null: nowhere), "apart", "only_a",
// "only_b", "final": [{"metric", "step_a", "a", "step_b", "b"}], "weights"}, "resumes": [{"run",
// "at", "step", "forced", "changed"}], "forced": those by --force, without "forced"}. The names
// "excuse", "first_apart" and "apart" belong to the format; in code they are note, first_divergence
// and diverging.
Json comparison_json(const RunComparison& comparison);

}  // namespace xrun
