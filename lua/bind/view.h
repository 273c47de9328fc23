#pragma once
// Views as arguments of other types' methods.

#include <lua.hpp>

#include "core/train/view.h"

namespace xrun {

// The view at index i, all of the micro-batch that stands there, or an error that wants a View.
View read_view(lua_State* L, int i);

}  // namespace xrun
