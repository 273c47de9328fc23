#pragma once
// The identity of a run, and the table of everything that a resume compares with it.

#include <filesystem>
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
  Json config;   // resolved values, an object
  Json origins;  // the source of each value; written to config.json, never compared
  std::vector<std::string> sets = {};  // --set, those of a resumed run first; never compared
  Json binary;                         // version and digests of the binary, an object
  Json machine;                        // threads, device, ...
};

// Returns Lua source with every whole number that is given to a name `steps` or `epochs` replaced
// by 0. Strings and comments stay.
std::string without_lengths(std::string_view recipe_text);

// Returns 8 hexadecimal digits over the recipe's text and configuration. The length and the free
// settings do not count, so that a run that differs in nothing else finds its folder.
std::string short_hash(const RunIdentity& identity);

// Returns the folder of a run without --run: runs/<recipe>-<short hash>.
std::filesystem::path default_run_dir(const RunIdentity& identity);

// Returns the name of a recipe file without folder and ".lua".
std::string recipe_name(const std::filesystem::path& recipe);

// Returns the fields that make `now` another run than `before`: the first differing line of the
// recipe, fields of the configuration (the length and the free settings aside), fields of the
// binary.
std::vector<Difference> identity_differences(const RunIdentity& before, const RunIdentity& now);

// Returns the differing free settings: those that decide when and in which type something is
// written and what processes share, and do not affect training (save, dist, valid.every,
// export.dtype, fold_check).
std::vector<Difference> free_differences(const RunIdentity& before, const RunIdentity& now);

// Returns the differing lengths: steps and epochs of the configuration or, where these are equal,
// the first line of the recipe that gives another number to such a name.
std::vector<Difference> length_differences(const RunIdentity& before, const RunIdentity& now);

// Returns the differing fields of an input ({"digest", "keys"?}, see Run::check_input): those of
// the cache keys, or the digest where the keys do not tell.
std::vector<Difference> input_differences(const Json& before, const Json& now);

// The items that a resume compares; resume.cpp has the table of their effects. Other files refuse a
// resume for these reasons:
//   run_files.h            a run of a newer format
//   checkpoint.h           a damaged checkpoint; objects of other names
//   policy_saving.cpp      weights whose files have changed (also reference.cpp, frozen_model.cpp);
//                          a reference taken at another update
//   resumed_options.cpp    a setting that the recipe no longer has
//   resumed_run.cpp        no run in the folder; a relative path that exists only where it began
//   run_dir.cpp            a folder that another process uses
//   run_dir_resume.cpp     another export.dtype for a finished run without its last checkpoint
// run_dir_resume.cpp also refuses a start without --resume in the folder of a run that has saved or
// logged something; the message says if that run is finished or differs in its length alone.
enum class ResumeItem {
  kRecipe,       // a recipe whose name and text differ; compared before its settings are read
  kIdentity,     // recipe, configuration, binary; compared when the folder is opened
  kFree,         // settings that do not affect training; compared when the folder is opened
  kMachine,      // threads, device; compared when the folder is opened
  kInput,        // a data set or a Lua module, when it is opened
  kLoopData,     // the plan of a loop, when the loop begins
  kLoopShrank,   // fewer steps of a loop, when the loop begins
  kLoopRegrown,  // more steps of a loop that a later one follows, when the loop begins
};

// Returns true if such a difference refuses the resume without --force.
bool resume_is_refused(ResumeItem item);

// Returns the report of a difference. Throws Error with the same text if the difference
// refuses the resume and `force` is false.
//   subject  what differs, for the start of the text: "data set 2 (pairs.jsonl)"; "" for an item
//            whose text in the table names it
std::string resume_notice(ResumeItem item, const std::string& subject,
                          const std::vector<Difference>& differences,
                          const std::filesystem::path& dir, bool force);

}  // namespace xrun
