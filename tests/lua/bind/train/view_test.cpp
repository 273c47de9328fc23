// Batches and views from Lua: fields, sums between tokens and sequences, objectives by unit.

#include "core/data/rows/row_fields.h"
#include "lua/state/doc.h"
#include "tests/error_of.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::view_test {

using ViewBinding = SessionTest;

TEST_F(ViewBinding, AFieldAssignedToTheBatchIsSlicedIntoTheViews) {
  EXPECT_EQ(run(head() + R"(
local function weighted(p)
  assert(p.bonus:size(0) == p.size and p.chosen.bonus:equal(p.chosen.row:float()))
  assert(p.rejected.bonus:equal(p.rejected.row:float()) and p.chosen.side:equal(p.chosen.pair * 2))
  assert(p.rejected.side:equal(p.rejected.pair * 2 + 1))
  assert(p.all.old_logprob:equal(policy:token_logprob(p.all):detach()))
  return (dpo(p))
end
for step, batch in run:steps(train, cfg.batch) do
  batch.bonus = batch.row:float()                            -- one per sequence
  batch.side = xrun.arange(batch.size)
  batch.old_logprob = policy:token_logprob(batch)            -- one per trained token
  batch.half = xrun.rand{batch.size / 2}                     -- one per pair, for both sides
  assert(batch.old_logprob:dim() == 1 and batch.half:size(0) == 4 and batch.micro_count > 1)
  adamw:step(batch, weighted)
end
)",
                "r"),
            "");
}

TEST_F(ViewBinding, SizesOfAnObjectiveThatDifferAreExplained) {
  const std::string text = run(head() + R"(
local function mixed(p) return policy:logprob(p.chosen) - policy:token_logprob(p.chosen) end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, mixed) end
)",
                               "r", {.resume = true});
  // A micro-batch of one pair broadcasts, so the wrong size is that of the loss.
  has(text, "one per pair");
  has(text, "one per trained token of the chosen side");
  has(text, "view:sum(x) turns values per token into values per sequence");
}

TEST_F(ViewBinding, AWrongFieldNameGetsASuggestion) {
  const auto assign = [&](const std::string& line) {
    return run(head() + "for step, batch in run:steps(train, cfg.batch) do " + line + " end\n", "r",
               {.resume = true});
  };
  has(assign("batch.noise = xrun.rand{3}"), "batch.noise has shape [3], wanted [8]");
  has(assign("batch.noise = 3"), "batch field `noise`: got 3, wanted");
  has(assign("batch.step = xrun.rand{8}"), "`step` of a Batch is read-only");
  has(assign("batch.row = xrun.rand{8}"), "batch.row belongs to the data");
}

TEST_F(ViewBinding, AnExtraColumnMayNotHaveTheNameOfABatchField) {
  run(head(), "r");  // documents the classes
  int names = 0;
  for (const DocEntry& entry : doc_entries()) {
    const size_t end = entry.name.find_first_of(".:");
    const std::string owner = entry.name.substr(0, end);
    if (end == std::string::npos || entry.kind == DocKind::kMetamethod ||
        (owner != "View" && owner != "Micro" && owner != "Batch")) {
      continue;
    }
    RowSettings settings;
    settings.keep = {entry.name.substr(end + 1)};
    EXPECT_NE(message_of<UsageError>([&] {
                RowFields(RowKind::kChat, {"messages"}, settings);
              }).find("which is a field of every batch"),
              std::string::npos)
        << entry.name;
    ++names;
  }
  EXPECT_GE(names, 15);
}

TEST_F(ViewBinding, StringsOfExtraColumnsAreLists) {
  EXPECT_EQ(run(head() + R"(
local function look(p)
  assert(#p.topic == p.size and type(p.topic[1]) == "string" and p.chosen.topic[1] == p.topic[1])
  return (dpo(p))
end
for step, batch in run:steps(train, cfg.batch) do
  assert(#batch.topic == batch.size and batch.topic[1] == batch.topic[2])
  adamw:step(batch, look)
end
)",
                "r"),
            "");
}

TEST_F(ViewBinding, AMisspeltSideIsSuggested) {
  const std::string text = run(head() + R"(
for step, batch in run:steps(train, cfg.batch) do
  adamw:step(batch, function(p) return policy:logprob(p.choosen) end)
end
)",
                               "r");
  has(text, "did you mean `chosen`?");
}

TEST_F(ViewBinding, SumsMeansAndSpreadAgree) {
  EXPECT_EQ(run(head() + R"(
local function check(p)
  local view = p.chosen
  local token = policy:token_logprob(view)
  assert(token:size(0) == view.row_count and view.length:sum():item() == view.row_count)
  assert((view:sum(token) - policy:logprob(view)):abs():max():item() < 1e-4)
  assert((view:mean(token) * view.length - view:sum(token)):abs():max():item() < 1e-4)
  assert(view:sum(view:spread(view.length:float())):equal((view.length * view.length):float()))
  local logits = policy:logits(view)
  assert(logits:size(0) == view.row_count)
  local all = logits:log_softmax(-1)
  assert((view.tokens - view.length):min():item() > 0 and all:max():item() <= 0)
  return (dpo(p))
end
for step, batch in run:steps(train, cfg.batch) do adamw:step(batch, check) end
)",
                "r"),
            "");
  has(output_, "policy:logits holds");
}

TEST_F(ViewBinding, ABatchNamesTheExpressionInPlaceOfAMethodOfViews) {
  const auto body = [&](const std::string& line) {
    return run(head() + "for step, batch in run:steps(train, cfg.batch) do " + line + " end\n", "r",
               {.resume = true});
  };
  has(body("batch:spread(batch.length)"),
      "a batch has no method `spread`, only the views of an objective have it; write "
      "x:repeat_interleave(batch.length)");
  has(body("batch:mean(batch.length)"), "write batch:sum(x) / batch.length");
  EXPECT_EQ(run(head() + R"(
local function check(p)
  assert(p.all.wide:equal(p.all:spread(p.all.length)))
  assert((p.all.average - p.all:mean(policy:token_logprob(p.all):detach())):abs():max():item() < 1e-5)
  return (dpo(p))
end
for step, batch in run:steps(train, cfg.batch) do
  batch.wide = batch.length:repeat_interleave(batch.length)
  batch.average = batch:sum(policy:token_logprob(batch)) / batch.length
  adamw:step(batch, check)
end
)",
                "r2"),
            "");
}

TEST_F(ViewBinding, LossesByUnitAdd) {
  expect_same_when_resumed(head() + R"(
local function nll(p) return { token = -policy:token_logprob(p.all) } end
local function both(p)
  return { pair = dpo(p), token = -0.1 * policy:token_logprob(p.all) }
end
for step, batch in run:steps(train, cfg.batch) do
  local pair = run:evaluate(valid, dpo).loss
  local token = run:evaluate(valid, nll, "nll").loss
  local sum = run:evaluate(valid, both, "both").loss
  assert(math.abs(sum - pair - 0.1 * token) < 1e-4, sum)
  run:log(adamw:step(batch, both))
end
)" + kExport,
                           {2});
}

TEST_F(ViewBinding, AWrongReturnPointsIntoTheObjective) {
  const auto objective = [&](const std::string& value) {
    return run(head() +
                   "local function bad(p)\n  local margin = policy:logprob(p.chosen)\n  return " +
                   value +
                   "\nend\nfor step, batch in run:steps(train, cfg.batch) do\n"
                   "  adamw:step(batch, bad)\nend\n",
               "r", {.resume = true, .force = true});
  };
  const std::string text = objective("margin:mean()");
  has(text, "test.lua:19: the loss is a single number");
  has(text, "    19 |   return margin:mean()");
  has(text, "called from test.lua:22");
  has(objective("3"), "test.lua:19: the objective's first value is a number");
  has(objective("margin and nil"), "test.lua:19: the objective returned nothing (nil)");
  const std::string none =
      run(head() +
              "local function bad(p)\n  local margin = policy:logprob(p.chosen)\n"
              "end\nfor step, batch in run:steps(train, cfg.batch) do\n"
              "  adamw:step(batch, bad)\nend\n",
          "r", {.resume = true, .force = true});
  has(none,
      "test.lua:17: the objective returned nothing (nil), wanted a tensor with one loss per pair, "
      "or "
      "a table of losses by unit; it has to end with `return` and the losses");
  const std::string several = objective(
      "3\nend\nbad = function(p)\n  if p then return 3 end\n"
      "  return margin:mean()");
  has(several, "test.lua:21: the objective's first value is a number");
  has(objective("{ chunk = margin }"),
      "a loss per chunk: this batch has none; it has pairs, tokens");
  has(objective("margin, { acc = 'high' }"), "`acc` of the table of metrics");
  has(objective("margin, { loss = margin }"),
      "the metric \"loss\" has a name that the step itself");
}

}  // namespace xrun::view_test
