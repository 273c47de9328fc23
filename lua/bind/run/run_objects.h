#pragma once
// The objects that a recipe gives to xrun.run, which checkpoints hold.

#include <lua.hpp>

#include "core/run/checkpoint.h"
#include "lua/bind/run/memory_report.h"
#include "lua/bind/session.h"

namespace xrun {

// Reads the table { policy = policy, adamw = adamw } at index i. Returns its objects in the order
// of their names, and adds policies (a scorer's too) and optimizers to `models`. Throws Error for a
// value that cannot be saved.
SavedObjects read_objects(lua_State* L, int i, RunModels& models);

// Adds a notice for each optimizer and average of the session that is not in `saved`: a resume
// would begin it again, and no metric would show that.
void report_unsaved(lua_State* L, Session& session, const SavedObjects& saved);

}  // namespace xrun
