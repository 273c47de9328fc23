// xrun.fold_shared_prefix and xrun.tree_slices.

#include "lua/bind/modules.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::fold_test {

class LuaFold : public LuaTest {
 protected:
  LuaFold() { open_fold(state_); }
};

constexpr const char* kText =
    "local function text(v)\n"
    "  if type(v) ~= 'table' then return tostring(v) end\n"
    "  local out = {}\n"
    "  for i, w in ipairs(v) do out[i] = text(w) end\n"
    "  return '{' .. table.concat(out, ' ') .. '}'\n"
    "end\n";

TEST_F(LuaFold, FoldsTheWorkedExample) {
  EXPECT_EQ(
      run(std::string(kText) + "local f = xrun.fold_shared_prefix{ prompt_ids = { 1, 2 },\n"
                               "  completions = { { 10, 11 }, { 20, 21, 22 } } }\n"
                               "return text(f.input_ids), text(f.labels), text(f.position_ids),\n"
                               "  text(f.node_lengths), text(f.sample_paths)"),
      "{1 2 10 11 20 21 22}, {-100 -100 11 -100 21 22 -100}, {0 1 2 3 2 3 4}, {2 2 3}, "
      "{{0 1} {0 2}}");
}

TEST_F(LuaFold, TakesAnIgnoreIndexAndAnEmptyPrompt) {
  EXPECT_EQ(run(std::string(kText) +
                "local f = xrun.fold_shared_prefix{ prompt_ids = {}, ignore_idx = -1,\n"
                "  completions = { { 1, 2 }, { 3 } } }\n"
                "return text(f.labels), text(f.position_ids), text(f.sample_paths)"),
            "{2 -1 -1}, {0 1 0}, {{1} {2}}");
}

TEST_F(LuaFold, AListOfGroupsHoldsExactlyOne) {
  EXPECT_EQ(run("local group = { prompt_ids = { 1 }, completions = { { 2 } } }\n"
                "return #xrun.fold_shared_prefix({ group }).input_ids"),
            "2");
  error_has(
      "local group = { prompt_ids = { 1 }, completions = { { 2 } } }\n"
      "return xrun.fold_shared_prefix({ group, group })",
      "prefix_tree_collate_fn supports local_batch_size=1 only, got 2 groups.");
  error_has("return xrun.fold_shared_prefix({})", "got 0 groups.");
}

TEST_F(LuaFold, NamesBadGroups) {
  error_has("return xrun.fold_shared_prefix{ prompt_ids = { 1 }, completions = {} }",
            "completions must be non-empty (need at least one rollout).");
  error_has("return xrun.fold_shared_prefix{ prompt_ids = { 1 }, completions = { { 2 }, {} } }",
            "every completion must be non-empty.");
  error_has("return xrun.fold_shared_prefix{ prompt = { 1 }, completions = { { 2 } } }",
            "prompt_ids");
  error_has("return xrun.fold_shared_prefix{ prompt_ids = { 1 }, completions = { { 2.5 } } }",
            "completions[1]");
  error_has("return xrun.fold_shared_prefix{ prompt_ids = { 1 } }", "completions");
  error_has("return xrun.fold_shared_prefix(3)", "got 3");
}

TEST_F(LuaFold, SlicesATreeOfAnyDepth) {
  EXPECT_EQ(
      run(std::string(kText) + "local s = xrun.tree_slices({ 1, 2, 3 }, { { 0, 1, 2 }, { 0 } })\n"
                               "return text(s.q_ranges), text(s.k_ranges), text(s.types),\n"
                               "  text(s.sample_token_ranges)"),
      "{{0 1} {1 3} {1 3} {3 6} {3 6} {3 6}}, {{0 1} {1 3} {0 1} {3 6} {0 1} {1 3}}, "
      "{causal causal full causal full full}, {{{0 1} {1 3} {3 6}} {{0 1}}}");
}

TEST_F(LuaFold, NamesBadTrees) {
  error_has("return xrun.tree_slices({ 1, -2 }, { { 0 } })", "node_lengths[1] is -2");
  error_has("return xrun.tree_slices({ 1, 2 }, { { 0, 2 } })",
            "sample_paths[0][1] is 2, node_lengths has 2 entries");
  error_has("return xrun.tree_slices({ 1, 2 }, { { 0, 1 }, {} })", "sample_paths[1] has no nodes");
  error_has("return xrun.tree_slices({ 1, 2 }, { 0, 1 })", "sample_paths[1]");
  error_has("return xrun.tree_slices({ 1, 2 })", "sample_paths");
}

}  // namespace xrun::fold_test
