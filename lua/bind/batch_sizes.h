#pragma once
// What a step and its micro-batches take, as a batch table or the configuration says it.

#include <cstdint>
#include <lua.hpp>

#include "core/config/config_defaults.h"
#include "lua/bind/data_handle.h"

namespace xrun {

struct BatchSizes {
  int64_t tokens = 0;                    // of a step made of windows; 0: its units are rows
  int64_t max_tokens = kMaxMicroTokens;  // of a micro-batch
};

// The configuration's `batch`.
BatchSizes config_sizes(lua_State* L);

// Whether rows of a kind are cut into windows: text and token rows under batch.tokens.
bool cuts_windows(RowKind kind, const BatchSizes& sizes);

// The set in windows of max_length, tokens or max_tokens, whichever is least: in training and in
// evaluation alike. Throws Error as DataSet::in_windows does.
DataSet windows_of(const DataHandle& data, const BatchSizes& sizes);

}  // namespace xrun
