#pragma once
// A data set as Lua holds it, and the batch sizes that decide how a loop draws from it.

#include <cstdint>
#include <lua.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/config/config_defaults.h"
#include "core/data/packs/data_set.h"
#include "lua/bind/data_functions.h"

namespace xrun {

class KeptColumns;
class Policy;

struct DataHandle {
  DataSet set;
  std::shared_ptr<Policy> policy;  // whose tokenizer and vocabulary it was made for
  std::string name;                // of its first source, for messages
  std::shared_ptr<const KeptColumns> kept = nullptr;  // of the whole set
  Json options = {};  // those it was opened with, for a set that split{ data } opens
  DataFunctions functions = {};
  int64_t max_length = 0;  // tokens of one sequence: asked for, or the model's limit
  uint64_t seed = 0;
  RowOrder order = {};
};

struct BatchSizes {
  int64_t tokens = 0;                    // of a step made of windows; 0: its units are rows
  int64_t max_tokens = kMaxMicroTokens;  // of a micro-batch
};

// The configuration's `batch`.
BatchSizes config_sizes(lua_State* L);

// True if rows of the kind are cut into windows: text and token rows under batch.tokens.
bool cuts_windows(RowKind kind, const BatchSizes& sizes);

// The set in windows of max_length, tokens or max_tokens, whichever is least: in training and in
// evaluation alike. Throws Error as DataSet::in_windows does.
DataSet windows_of(const DataHandle& data, const BatchSizes& sizes);

}  // namespace xrun
