#pragma once
// `filter` and `map` of a data set: the recipe's own functions over rows.

#include <memory>
#include <string>
#include <vector>

#include "core/data/rows/row.h"
#include "lua/state/worker_function.h"

namespace xrun {

// filter(row) -> true or false, then map(row) -> row; either may be null. Rows are plain tables:
// JSON's null is nil, inside lists the global `null`. What map leaves as it was keeps its order of
// keys and its numbers' form (restored_row.h).
std::shared_ptr<const RowTransformSource> make_row_functions(
    std::shared_ptr<const WorkerFunction> filter, std::shared_ptr<const WorkerFunction> map);

}  // namespace xrun
