// A single set is counted in its rows' unit; with several, each set in its own.

#include "lua/bind/run/step_units.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "lua/bind/run/step_loop.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// "300 is 4 windows of 64 tokens"
std::string windows_text(int64_t tokens, int64_t window) {
  return fmt::format("{} is {} of {} tokens", count_text(tokens),
                     counted(tokens / window, "window"), count_text(window));
}

// Reads batch.schedule, in the unit of the batch. Sizes are divided by `scale`: the tokens of a
// window, or 1.
void read_schedule(lua_State* L, const Options& batch, int64_t scale, const char* unit,
                   StepSource& source) {
  if (!batch.has("schedule")) return;
  const Json schedule = batch.get<Json>("schedule");
  int64_t before = 0;
  for (const Json& entry : schedule.as_array()) {
    const int64_t size = entry.at("size").as_int();
    const SizeChange change{entry.at("step").as_int(), size / scale};
    if (change.step <= before) {
      throw UsageError(
          fmt::format("batch.schedule: step {} follows step {}; wanted ascending steps from 1 on; "
                      "batch.{} is the size before the first change",
                      change.step, before, unit));
    }
    if (change.units <= 0) {
      throw UsageError(fmt::format(
          "batch.schedule: size {} is less than one window of {} tokens; raise it", size, scale));
    }
    if (size % scale != 0) {
      session_of(L).notices.add("batch.schedule: size " + windows_text(size, scale));
    }
    before = change.step;
    source.plan.changes.push_back(change);
  }
}

// Windows of a text stream: a step takes tokens / window of them.
void read_windows(lua_State* L, const BatchSizes& sizes, StepSource& source) {
  source.data->set = windows_of(*source.data, sizes);
  const int64_t window = source.data->set.window_length();
  source.plan.units = sizes.tokens / window;
  if (sizes.tokens % window == 0) return;
  session_of(L).notices.add("batch.tokens = " + windows_text(sizes.tokens, window));
}

// Reads the number of groups of rollouts per step and returns their unit.
std::string read_groups(const Options& batch, bool alone, StepSource& source) {
  const char* const unit = "groups";
  for (const std::string& other : batch_counts()) {
    if (alone && other != unit && batch.has(other.c_str())) {
      throw UsageError(fmt::format(
          "batch.{} does not fit xrun.rollouts, whose batches are counted in groups: write "
          "batch = {{ groups = 8 }}",
          other));
    }
  }
  if (!batch.has(unit)) {
    throw UsageError(fmt::format(
        "batch.groups is missing; batches of xrun.rollouts are counted in groups: write batch "
        "= {{ groups = 8 }}"));
  }
  source.plan.units = batch.get<int64_t>(unit);
  GroupQueueOptions options = source.rollouts->queue;
  options.groups = source.plan.units;
  source.queue = std::make_shared<GroupQueue>(options);
  return unit;
}

// Reads the number of units per step and returns the unit, which follows from the rows: pairs,
// sequences, prompts or tokens. Tokens cut the set into windows of max_length.
std::string read_units(lua_State* L, const Options& batch, const BatchSizes& sizes, bool alone,
                       StepSource& source) {
  const DataSet& set = source.data->set;
  if (source.rollouts) return read_groups(batch, alone, source);
  if (sizes.tokens > 0 && (alone || cuts_windows(set.kind(), sizes))) {
    read_windows(L, sizes, source);
    return "tokens";
  }
  const std::string unit = std::string(set.unit_name()) + "s";
  for (const std::string& other : batch_counts()) {
    if (alone && other != unit && batch.has(other.c_str())) {
      throw UsageError(fmt::format(
          "batch.{} does not fit {} rows, which are counted in {}: write batch = {{ {} = 8 }}",
          other, row_kind_name(set.kind()), unit, unit));
    }
  }
  if (!batch.has(unit.c_str())) {
    throw UsageError(fmt::format(
        "batch.{0} is missing; {1} rows are counted in {0}: write batch = {{ {0} = 8 }}", unit,
        row_kind_name(set.kind())));
  }
  source.plan.units = batch.get<int64_t>(unit.c_str());
  return unit;
}

}  // namespace

void read_all_units(lua_State* L, const Options& batch, const BatchSizes& sizes, StepLoop& loop) {
  const bool alone = loop.sources.size() == 1;
  std::vector<std::string> given;
  for (const std::string& name : batch_counts()) {
    if (batch.has(name.c_str())) given.push_back(name);
  }
  if (alone && given.size() >= 2) {
    throw UsageError(fmt::format(
        "batch has both {} and {}, but one set is counted in one of them; leave one out, or "
        "give run:steps a list of two sets",
        given[0], given[1]));
  }
  const bool changes = batch.has("schedule") && batch.get<Json>("schedule").size() > 0;
  for (StepSource& source : loop.sources) {
    const std::string unit = read_units(L, batch, sizes, alone, source);
    std::erase(given, unit);
    if (!changes) continue;
    if (!alone || source.rollouts) {
      throw UsageError(fmt::format(
          "batch.schedule changes the size of steps of one set of rows; this loop has {}: "
          "leave it out, or give each size its own run:steps loop",
          alone ? "xrun.rollouts" : fmt::format("{} sets", loop.sources.size())));
    }
    read_schedule(L, batch, unit == "tokens" ? source.data->set.window_length() : 1, unit.c_str(),
                  source);
  }
  if (!given.empty()) {
    throw UsageError(fmt::format("batch.{} fits none of the {} sets: none has rows counted in {}",
                                 given[0], loop.sources.size(), given[0]));
  }
}

}  // namespace xrun
