#pragma once
// The filter, map and template functions of a recipe, for all sources or for single ones by number.

#include <lua.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/packs/data_options.h"
#include "core/data/rows/row.h"
#include "core/text/chat/chat_template.h"
#include "lua/state/worker_function.h"

namespace xrun {

// The function for every source, and those for single sources by their number, from 1.
struct SourceFunctions {
  std::shared_ptr<const WorkerFunction> all;
  std::map<int64_t, std::shared_ptr<const WorkerFunction>> of;

  std::shared_ptr<const WorkerFunction> for_source(int64_t number) const {
    const auto found = of.find(number);
    return found == of.end() ? all : found->second;
  }
};

struct DataFunctions {
  SourceFunctions filter, map;
  SourceFunctions chat_template;
  bool choices = false;  // rows are multiple-choice questions (choice_rows.h)

  // Sets transform and template of each source. Throws Error that names a number beyond the
  // sources.
  void apply_to(DataOptions& options) const;
  // Returns the functions for other files (valid.data). With several `sources` of the set, throws
  // Error that names an option whose functions are given by source.
  DataFunctions for_other_files(size_t sources) const;
};

// The options that may be functions.
struct FunctionOption {
  const char* name;
  SourceFunctions DataFunctions::*functions;
};
inline constexpr FunctionOption kFunctionOptions[] = {
    {"filter", &DataFunctions::filter},
    {"map", &DataFunctions::map},
    {"template", &DataFunctions::chat_template},
};

// Takes filter, map and template (where it is a function, or a table of them) from the options at
// index i. Throws Error that names option and source.
DataFunctions read_data_functions(lua_State* L, int i);

// Returns the other options at index i as JSON.
Json plain_options(lua_State* L, int i);

// Runs filter(row) -> true or false, then map(row) -> row; either may be null. Rows are plain
// tables: JSON's null is nil, inside lists the global `null`. Unchanged parts of a row keep the
// order of their keys and the form of their numbers.
std::shared_ptr<const RowTransformSource> make_row_functions(
    std::shared_ptr<const WorkerFunction> filter, std::shared_ptr<const WorkerFunction> map);

// Undoes the effects of a round trip through Lua on the unchanged parts of a row
// (restored_row.cpp). Returns `value`, which came out of Lua, with every part that equals a part of
// `original` replaced by the original: the order of keys, 1.0 for 1, null for a missing member, {}
// for []. The part at the same position is tried first, in lists the one that the neighbouring
// elements suggest; a list or object that was moved is found anywhere in the row.
Json restored_row(Json value, const Json& original);

// A chat template as a Lua function, template(t, messages, kwargs), which calls in order
//   t:special(text)        the template's own text, which may become special tokens
//   t:text(text)           data, which never does
//   t:train(text)          data that is trained
//   t:train_special(text)  the template's own text that is trained: the end of a turn
// Trained pieces that follow each other are one turn. Any number of threads may render at once;
// each has a separate state. render() throws Error with the recipe's file and line.
std::shared_ptr<const ChatTemplate> make_lua_template(
    std::shared_ptr<const WorkerFunction> function);

}  // namespace xrun
