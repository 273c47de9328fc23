#pragma once
// Opens the rows of a data set: template, tokenizer and cache.

#include <lua.hpp>
#include <memory>

#include "core/base/json.h"
#include "lua/bind/data/data_handle.h"

namespace xrun {

class Policy;

// Opens rows of a kind for a policy's tokenizer, and shows the progress. `data` is the value of
// cfg.data; `options` override the configuration. The set joins the session's ledger and inputs.
std::shared_ptr<DataHandle> open_set(lua_State* L, RowKind kind,
                                     const std::shared_ptr<Policy>& policy, const Json& data,
                                     const Json& options, const DataFunctions& functions);

}  // namespace xrun
