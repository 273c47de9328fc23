#pragma once
// Undoes what a round trip through Lua does to the unchanged parts of a row.

#include "core/base/json.h"

namespace xrun {

// Returns `value`, which came out of Lua, with every part that equals a part of `original` put back
// as it stands there: the order of keys, 1.0 for 1, null for a member that is gone, {} for []. The
// part at the same place is taken first, in lists the one that the elements around it tell; a list
// or object that was moved or whose neighbours went is found wherever it stood.
Json restored_row(Json value, const Json& original);

}  // namespace xrun
