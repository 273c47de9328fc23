#pragma once
// Sampled answers as the tables that rewards, filters and environments get.

#include <cstdint>
#include <lua.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/data/rows/ledger.h"
#include "core/rollout/rollouts.h"

namespace xrun {

// Guards the sample on top of the stack: reading a field that it lacks raises an error that names
// the field and says, from the ledger of the recipe's data, why it is missing. The ledger must
// outlive the state.
void guard_sample_fields(lua_State* L, const Ledger& ledger);

// The values per sequence of a batch, read once for many tables.
class FieldTable {
 public:
  explicit FieldTable(const Batch& batch);
  // Adds the fields of sequence i to the table on top of the stack.
  void add_fields(lua_State* L, size_t i) const;

 private:
  std::vector<std::pair<std::string, std::vector<double>>> numbers_;
  std::vector<std::pair<std::string, std::vector<std::string>>> texts_;
};

// The samples of a batch as tables. The batch and the ledger of the data must outlive it.
class SampleTable {
 public:
  SampleTable(const Rollouts& rollouts, const Ledger& ledger)
      : rollouts_(rollouts), ledger_(ledger), fields_(rollouts) {}
  // Pushes the table that a reward or filter gets for rollout i: the batch's fields, prompt_ids,
  // ids and index, and the turns of a conversation.
  void push_sample(lua_State* L, int64_t i) const;

 private:
  const Rollouts& rollouts_;
  const Ledger& ledger_;
  FieldTable fields_;
};

}  // namespace xrun
