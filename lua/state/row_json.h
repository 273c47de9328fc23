#pragma once
// Rows as functions over rows see them.

#include <lua.hpp>

#include "core/base/json.h"

namespace xrun {

// Pushes a row. A null in a list is the light userdata NULL, the global `null` of worker states,
// since nil would end the list there; to_json() brings it back. A null member is absent.
void push_row(lua_State* L, const Json& row);

}  // namespace xrun
