#pragma once
// What makes a run this run, and what a resume compares.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/run/record/difference.h"

namespace xrun {

// Two runs of equal identity give equal bits on one machine.
struct RunIdentity {
  std::string recipe_name;  // the file's name without folder and ".lua": "dpo"
  std::string recipe_text;
  Json config;   // resolved values, an object; top-level "steps" and "epochs" may grow on resume
  Json origins;  // where each value came from; written to config.json, never compared
  Json binary;   // version and digests of the binary, an object
  Json machine;  // threads, device, ...: a change is said on resume, and does not refuse
};

// Returns the text with every number that is given to a name `steps` or `epochs` replaced by 0.
std::string without_lengths(std::string_view recipe_text);

// Returns 8 hexadecimal digits over the recipe's text and configuration. Numbers given to `steps`
// and `epochs` do not count, so that a longer run of the same recipe finds its folder.
std::string short_hash(const RunIdentity& identity);

// Returns what makes `now` another run than `before`: lines of the recipe (the first that
// differs), fields of the configuration (steps and epochs aside), fields of the binary.
std::vector<Difference> identity_differences(const RunIdentity& before, const RunIdentity& now);

// True if steps, epochs, or a number that the recipe's text gives to such a name differ.
bool lengths_differ(const RunIdentity& before, const RunIdentity& now);

}  // namespace xrun
