#include "lua/bind/data_handle.h"

#include <algorithm>

#include "lua/bind/recipe.h"

namespace xrun {

BatchSizes config_sizes(lua_State* L) {
  BatchSizes sizes;
  sizes.tokens = config_whole(L, "batch.tokens", sizes.tokens);
  sizes.max_tokens = config_whole(L, "batch.max_tokens", sizes.max_tokens);
  return sizes;
}

bool cuts_windows(RowKind kind, const BatchSizes& sizes) {
  return sizes.tokens > 0 && (kind == RowKind::kText || kind == RowKind::kTokens);
}

DataSet windows_of(const DataHandle& data, const BatchSizes& sizes) {
  return data.set.in_windows(std::min({data.max_length, sizes.tokens, sizes.max_tokens}));
}

}  // namespace xrun
