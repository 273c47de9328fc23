#pragma once
// How a data set was opened, as JSON that opens it again without the recipe.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/packs/data_options.h"
#include "core/data/packs/data_set.h"

namespace xrun {

// A plain value. Functions of the recipe cannot be noted: sets with filter, map or template
// functions have no note.
struct SetNote {
  // One part of a split: the first, which trains, or the second.
  struct Part {
    double fraction = 0;
    SplitBy by = SplitBy::kRow;
    bool second = false;
  };
  DataOptions options;
  std::string chat_template = {};  // the setting, "auto"; "" for kinds without a template
  std::string date = {};           // that templates see
  std::vector<Part> parts = {};    // in the order of the splits
  int64_t window = 0;              // tokens of a window; 0: units are rows
};

Json to_json(const SetNote& note);
// Throws Error if the value does not have the form of to_json(), or a number is beyond what a set
// can be opened with in good time.
SetNote read_set_note(const Json& value);

// Opens the set as DataSet::open does, and takes its parts; throws Error where a cache would have
// to be built.
DataSet open_noted_set(const SetNote& note, const Tokenizer& tokenizer);

Json to_json(const StepPlan& plan);
StepPlan read_step_plan(const Json& value);  // throws Error as read_set_note() does

}  // namespace xrun
