#pragma once
// Reads the configuration's data and batch settings for a data set and its steps.

#include <lua.hpp>
#include <vector>

#include "core/base/json.h"
#include "core/config/config_field.h"
#include "core/data/packs/data_set.h"
#include "core/prefix/fold_settings.h"
#include "lua/bind/data/data_handle.h"

namespace xrun {

// Returns the option, else the configuration's value, else the field's default; null if there is
// none.
Json option_or_config(const Json& options, lua_State* L, const char* name);

// Reads the sources of a `data` list. Throws UsageError that names the element and what is wrong
// with it.
std::vector<DataSource> read_data_sources(const Json& data);

// Reads the `shuffle` setting: true, false, or { block, window }; null is true.
RowOrder read_order(const Json& shuffle);

// Reads the `mixture.stages` setting, whose fields are already checked.
std::vector<MixtureStage> read_stages(const Json& stages);

constexpr int64_t kUnlimitedLength = -1;  // no max_length on purpose; 0 is "not given"

// Reads all settings of a set: `data`, and `options`, which override the configuration.
DataOptions read_data_options(lua_State* L, RowKind kind, const Json& options, const Json& data);

struct BatchSizes {
  int64_t tokens = 0;                    // of a step made of windows; 0: its units are rows
  int64_t max_tokens = kMaxMicroTokens;  // of a micro-batch
  FoldSettings fold = {};
};

// Reads fold, fold_min and fold_weight of a `batch` table, whose fields are already checked.
FoldSettings read_fold(const Json& batch);

// Reads the configuration's `batch`.
BatchSizes config_sizes(lua_State* L);

// Returns true if rows of this kind are cut into windows: text and token rows under batch.tokens.
bool cuts_windows(RowKind kind, const BatchSizes& sizes);

// Returns the set in windows of max_length, tokens or max_tokens, whichever is least. Training and
// evaluation use the same windows. Throws Error as DataSet::in_windows does.
DataSet windows_of(const DataHandle& data, const BatchSizes& sizes);

}  // namespace xrun
