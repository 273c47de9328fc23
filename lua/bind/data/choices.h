#pragma once
// run:choices: accuracy on multiple-choice questions, from the scores of the choices.

#include <filesystem>
#include <lua.hpp>
#include <string>

#include "core/train/step.h"
#include "lua/bind/data/data_handle.h"

namespace xrun {

class Policy;

// Checks the questions of a set from xrun.choices. Throws Error that names the row, and the fix,
// for the first choice that has no tokens or exceeds the model's limit together with its prompt.
void check_choices_fit(lua_State* L, const DataHandle& data);

// Returns the file of a step: `run_dir`/choices/step_0000034.jsonl, or choices/NAME/... for
// questions with a name. Throws Error for a name that cannot be a folder of the run.
std::filesystem::path choices_file(const std::filesystem::path& run_dir, const std::string& name,
                                   int64_t step);

// Returns accuracy, accuracy_mean and accuracy_byte over the questions of a set that xrun.choices
// opened; nothing for an empty set and in a dry run. A choice is encoded alone and scored after its
// rendered prompt; of equal scores the first counts. Throws Error for a question longer than the
// model's limit, naming its row, and for a set without choices. Writes one line per question to
// `file`, with choices and `answer` counted from 0:
//   {"row","prompt","answer","best":{"sum","mean","byte"},
//    "choices":[{"text","tokens","sum","mean","byte"}, ...]}
// `sum`, `mean` and `byte` of a choice are its log-prob in all, per token and per byte. `best` has
// the index of the highest of each; it is right if it equals `answer`.
Metrics measure_choices(lua_State* L, Policy& policy, const DataHandle& data,
                        const std::filesystem::path& file);

}  // namespace xrun
