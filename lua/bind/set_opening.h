#pragma once
// Opens a data set for a recipe: settings, template, caches, ledger.

#include <lua.hpp>
#include <memory>

#include "core/base/json.h"
#include "core/data/rows/row.h"
#include "lua/bind/data_functions.h"
#include "lua/bind/data_handle.h"

namespace xrun {

// Opens rows of a kind for a policy's tokenizer, with progress. `data` is what cfg.data holds,
// `options` what stands in place of the configuration's keys. The set joins the session's ledger
// and inputs. Throws Error.
std::shared_ptr<DataHandle> open_set(lua_State* L, RowKind kind,
                                     const std::shared_ptr<Policy>& policy, const Json& data,
                                     const Json& options, const DataFunctions& functions);

}  // namespace xrun
