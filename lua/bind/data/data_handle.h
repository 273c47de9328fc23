#pragma once
// A data set as Lua holds it: the rows of one split, and the policy it was made for.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data/packs/data_set.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/models/policy.h"
#include "lua/bind/data/data_functions.h"

namespace xrun {

class ExtraColumns;

struct DataHandle {
  DataSet set;
  std::shared_ptr<Policy> policy;  // supplies tokenizer and vocabulary
  std::string name;                // its source, or the first and how many more
  std::shared_ptr<const ExtraColumns> extra = nullptr;  // of the whole set
  Json options = {};  // of its opening, reused for a set that split{ data } opens
  DataFunctions functions = {};
  int64_t max_length = 0;  // tokens of one sequence: asked for, or the model's limit
  uint64_t seed = 0;
  RowOrder order = {};
  // Aligns rows with the teacher of this set, used for rows that split{ data } opens; empty: none.
  std::function<DataSet(const DataSet&)> align = {};

  BatchTokenizer tokenizer() const { return {policy->tokenizer(), policy->dir().string()}; }
};

}  // namespace xrun
