// xrun.fold_shared_prefix and xrun.tree_slices: the prefix tree of a group, on plain lists.

#include "core/prefix/prefix_fold.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"
#include "lua/tensor/token_tensors.h"

namespace xrun {

namespace {

// A list of lists of whole numbers at index i; errors name the inner list: "completions[2]".
std::vector<std::vector<int64_t>> read_lists(lua_State* L, int i, const char* name) {
  if (!lua_istable(L, i)) throw_argument(L, i, name, "a list of lists of whole numbers");
  const StackGuard guard(L);
  std::vector<std::vector<int64_t>> lists;
  const int count = static_cast<int>(lua_objlen(L, i));
  for (int n = 1; n <= count; ++n) {
    lua_rawgeti(L, i, n);
    lists.push_back(read_whole_numbers(L, lua_gettop(L), fmt::format("{}[{}]", name, n).c_str()));
    lua_pop(L, 1);
  }
  return lists;
}

// One group at index i, and the ignore_idx of its labels.
RolloutGroup read_group(lua_State* L, int i, int64_t& ignore_idx) {
  const StackGuard guard(L);
  const Options options(L, i);
  RolloutGroup group;
  options.push_value("prompt_ids");
  group.prompt_ids = read_whole_numbers(L, lua_gettop(L), "prompt_ids");
  options.push_value("completions");
  group.completions = read_lists(L, lua_gettop(L), "completions");
  ignore_idx = options.get<int64_t>("ignore_idx");
  return group;
}

bool is_list(lua_State* L, int i) {
  if (!lua_istable(L, i)) return false;
  if (lua_objlen(L, i) > 0) return true;
  lua_pushnil(L);
  if (lua_next(L, i) == 0) return true;  // an empty list of groups
  lua_pop(L, 2);
  return false;
}

int fold_group(lua_State* L) {
  int64_t ignore_idx = 0;  // that of the last group; all but one are refused below
  std::vector<RolloutGroup> groups;
  if (is_list(L, 1)) {
    const int count = static_cast<int>(lua_objlen(L, 1));
    for (int n = 1; n <= count; ++n) {
      lua_rawgeti(L, 1, n);
      groups.push_back(read_group(L, lua_gettop(L), ignore_idx));
      lua_pop(L, 1);
    }
  } else {
    groups.push_back(read_group(L, 1, ignore_idx));
  }
  // The interface that this copies takes a batch of groups; collate_groups refuses all but one.
  const FoldedRollouts folded = collate_groups(groups, ignore_idx);
  lua_createtable(L, 0, 5);
  set_field(L, "input_ids", folded.input_ids);
  set_field(L, "labels", folded.labels);
  set_field(L, "position_ids", folded.position_ids);
  set_field(L, "node_lengths", folded.node_lengths);
  set_field(L, "sample_paths", folded.sample_paths);
  return 1;
}

std::vector<std::vector<int64_t>> as_lists(const std::vector<TokenRange>& ranges) {
  std::vector<std::vector<int64_t>> lists;
  for (const TokenRange& range : ranges) lists.push_back({range[0], range[1]});
  return lists;
}

int slice_tree(lua_State* L) {
  const TreeSlices slices =
      tree_slices(read_whole_numbers(L, 1, "node_lengths"), read_lists(L, 2, "sample_paths"));
  std::vector<std::vector<std::vector<int64_t>>> samples;
  for (const std::vector<TokenRange>& path : slices.sample_token_ranges) {
    samples.push_back(as_lists(path));
  }
  lua_createtable(L, 0, 4);
  set_field(L, "q_ranges", as_lists(slices.q_ranges));
  set_field(L, "k_ranges", as_lists(slices.k_ranges));
  set_field(L, "types", slices.types);
  set_field(L, "sample_token_ranges", samples);
  return 1;
}

}  // namespace

void open_fold(LuaState& state) {
  state.function(
      "fold_shared_prefix",
      {{"group",
        "table",
        {{"prompt_ids", "integer[]|Tensor"},
         {"completions", "table"},
         {"ignore_idx", "integer", -100}}}},
      {"table"},
      "One prompt and its completions as a tree of flat tokens, the prompt once: input_ids, labels "
      "(shifted; ignore_idx on the prompt and on the last token of each "
      "completion), position_ids, node_lengths, sample_paths (nodes from 0). A list of groups must "
      "hold exactly one. The first token of a completion has no label here; training with "
      "batch.fold loses none.",
      fold_group);
  state.function(
      "tree_slices", {{"node_lengths", "integer[]|Tensor"}, {"sample_paths", "integer[][]"}},
      {"table"},
      "The attention mask of a tree as rectangles: q_ranges and k_ranges, half-open token ranges "
      "from 0, types (\"causal\" or \"full\"), and sample_token_ranges, the ranges of the nodes on "
      "each path. Paths list nodes from 0, root first, to any depth.",
      slice_tree);
}

}  // namespace xrun
