#pragma once
// Batches that were sampled, as Lua has them: their methods, and their samples as tables.

#include <cstdint>
#include <lua.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/rollout/rollouts.h"

namespace xrun {

class Run;
struct BodyRollouts;

// Pushes the method of rollouts of this name, or their field `routes`, and returns true; false for
// any other name, and for a batch of data rows with a field of this name. Throws Error for another
// batch of data rows.
bool push_rollout_member(lua_State* L, const Batch& batch, const std::string& name);

// Returns the batch as rollouts. Throws Error if it was not sampled.
Rollouts& rollouts_of(Batch& batch);

// The record of the open body; null outside one.
BodyRollouts* body_rollouts(lua_State* L);

// Decides which rewards pass, unless the recipe said so: once per run, in its first body with
// rewards, so that pass@k does not come and go. run.json keeps it:
//   {"pass": {"step", "limit"}}, limit null: answers do not pass or fail
void settle_pass(Run& run, BodyRollouts& body);

// Makes reading a field that the sample on top of the stack lacks an error that names it.
void guard_sample_fields(lua_State* L);

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

// The samples of a batch as tables. The batch must outlive it.
class SampleTable {
 public:
  explicit SampleTable(const Rollouts& rollouts) : rollouts_(rollouts), fields_(rollouts) {}
  // Pushes the table that a reward or filter gets for rollout i: the batch's fields, prompt_ids,
  // ids and index, and the turns of a conversation.
  void push_sample(lua_State* L, int64_t i) const;

 private:
  const Rollouts& rollouts_;
  FieldTable fields_;
};

// The beginning of a prompt or an answer, for a message.
std::string shown_start(const std::string& text);

// rollouts:score and rollouts:score_groups, with their arguments on the stack.
int score_rollouts(lua_State* L);
int score_rollout_groups(lua_State* L);

}  // namespace xrun
