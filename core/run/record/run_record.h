#pragma once
// Facts read from a run's files: its settings one by one, whether a prompt was opened, the resumes
// that changed something, the sum of its profiles.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

struct Setting {
  std::string key;     // "optim.lr", "data.1.path" (list elements count from 1)
  Json value;          // a list of plain values, and an empty list or object, is one value
  std::string origin;  // "recipes/dpo.lua:10", "--set", "default"; "" if unknown
};

// Returns the values of a resolved config in its order. The origin of a value is that of its key,
// of a list's first element, or of the nearest key above. Returns nothing for anything but an
// object, since the file was not validated.
std::vector<Setting> flat_settings(const Json& config, const Json& origins);

// Returns true if run.json says that a prompt was opened. Input typed there is in log.txt and
// not in the recipe.
bool is_interactive(const Json& record);

// A resume that changed settings of the run from its step on.
struct ChangedResume {
  std::string run;                   // the run's name; "" until compare_runs sets it
  std::string at;                    // date and time
  int64_t step = -1;                 // bodies done before; -1: unknown
  bool forced = false;               // by --force
  std::vector<std::string> changed;  // "config.steps", "recipe.lua:12", "machine.threads", ...
};

// Returns the changed resumes in run.json, in order; config.json and recipe.lua show only what
// holds since the last one. Leaves out those before a start from the beginning, which undid them.
std::vector<ChangedResume> changed_resumes(const Json& record);

// Returns the sum of two profiles, objects as LineProfile::to_json makes them, in the order of
// files and lines: a resumed run adds to its earlier processes. Lines are equal if file, number and
// text are. Throws Error that names what is wrong with `before`.
Json add_profiles(const Json& before, const Json& now);

}  // namespace xrun
