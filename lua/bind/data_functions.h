#pragma once
// The functions that a recipe gives beside its data: filter, map and template, for all sources or
// by a source's number.

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

// One function for every source, and those of single sources, counted from 1.
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

  // Sets transform and template of each source. Throws Error that names a number beyond the
  // sources.
  void apply_to(DataOptions& options) const;
  // The functions for a set of other files than the `sources` that they were given for. Throws
  // Error that names an option if it is one for single sources among several.
  DataFunctions for_other_files(size_t sources) const;
};

// Takes filter, map and template (where it is a function, or a table of them) from the options at
// index i. Throws Error that names option and source.
DataFunctions read_data_functions(lua_State* L, int i);

// The rest of the options as JSON.
Json plain_options(lua_State* L, int i);

// filter(row) -> true or false, then map(row) -> row; either may be null. Rows are plain tables:
// JSON's null is nil, inside lists the global `null`. What map leaves as it was keeps its order of
// keys and its numbers' form (restored_row.h).
std::shared_ptr<const RowTransformSource> make_row_functions(
    std::shared_ptr<const WorkerFunction> filter, std::shared_ptr<const WorkerFunction> map);

}  // namespace xrun
