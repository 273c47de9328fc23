// Data sets in loops and evaluations: windows, partial batches, steps without a weight, other files
// for validation, and functions over rows on several threads.

#include "core/data/cache/cache_reader.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::set_use_test {

class SetUse : public SessionTest {
 protected:
  SetUse() {
    std::string chats, tokens;
    for (int i = 0; i < 10; ++i) {
      const std::string n = std::to_string(i);
      chats += R"({"prompt":"say )" + n + R"(","completion":"it is )" + n + R"(","w":)" +
               (i < 4 ? "0" : "1") + R"(,"scores":[1,null,3,null]})" + "\n";
      std::string ids, labels;
      for (int k = 0; k < 100; ++k) {
        ids += (k == 0 ? "" : ",") + std::to_string(k);
        labels += k == 0 ? "-100" : i == 0 && k == 99 ? ",99" : ",-100";
      }
      tokens += R"({"input_ids":[)" + ids + R"(],"labels":[)" + labels + "]}\n";
    }
    tokens = tokens.substr(0, tokens.find('\n') + 1);
    write_file_atomic("chats.jsonl", chats);
    write_file_atomic("other.jsonl", chats.substr(0, chats.find('\n') + 1));
    write_file_atomic("tokens.jsonl", tokens);
  }
  static std::string opening(const std::string& batch, const std::string& more = "") {
    return "local xrun = require 'xrun'\n"
           "local cfg = xrun.config { model = 'tiny', data = { { path = 'chats.jsonl' } },\n"
           "  optim = { lr = 1e-3 }, batch = { " +
           batch + " }, " + more +
           " }\n"
           "local policy = xrun.policy(cfg.model)\n"
           "local adamw = xrun.adamw(policy, cfg.optim)\n"
           "local function nll(t) return -policy:token_logprob(t) end\n";
  }
  static constexpr const char* kLoop =
      "local run = xrun.run(cfg, { policy = policy, adamw = adamw })\n"
      "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, nll)) end\n";
};

TEST_F(SetUse, TokenRowsAreTrainedAndMeasuredInTheSameWindows) {
  EXPECT_EQ(run(opening("tokens = 20", "max_length = 20") + R"(
local train = xrun.tokens({ { path = "tokens.jsonl" } }, policy)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
local longest = {}
local function watched(use)
  return function(t)
    longest[use] = math.max(longest[use] or 0, t.tokens:max():item())
    return nll(t)
  end
end
for step, batch in run:steps(train, cfg.batch) do
  run:log(adamw:step(batch, watched("trained")))
end
run:log(run:evaluate(train, watched("measured")))
assert(longest.trained == 5 and longest.measured == 5, longest.trained .. " " .. longest.measured)
)",
                "r"),
            "");
}

TEST_F(SetUse, AStepWithoutATrainedTokenReportsThatItMadeNoUpdate) {
  EXPECT_EQ(run(opening("tokens = 20", "max_length = 20, shuffle = false, epochs = 1") + R"(
local train = xrun.tokens({ { path = "tokens.jsonl" } }, policy)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
local skipped = 0
for step, batch in run:steps(train, cfg.batch) do
  local metrics = adamw:step(batch, nll)
  if not metrics.loss then skipped = skipped + metrics["train/skipped"] end
  run:log(metrics)
end
assert(skipped == 5 and adamw.update_count == 1, skipped)
)",
                "r"),
            "");
  has(output_, "step 0: no update, because the weights of its losses add up to 0");
  EXPECT_EQ(output_.find("step 1: no update"), std::string::npos);
  has(output_, "in 5 steps, whose losses have weight 0");
  EXPECT_EQ(metrics("r").front(), R"({"step":0,"train/skipped":1.0,"train/lr":0.001})");
}

TEST_F(SetUse, ASetWithoutATrainedTokenIsReportedAsUnmeasured) {
  const std::string recipe = opening("sequences = 5") + R"(
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
local light = xrun.chat({ { path = "other.jsonl", fields = { weight = "w" } } }, policy)
local prompts = xrun.prompts({ { path = "other.jsonl" } }, policy)
for _, set in ipairs { light, prompts } do
  local none = run:evaluate(set, nll, "odd")
  assert(#none == 0 and none.loss == nil)
end
)";
  EXPECT_EQ(run(recipe, "r"), "");
  const std::string line =
      "valid/odd: nothing was measured, so there are no metrics: no trained "
      "token of its 1 row (other.jsonl:1)";
  has(output_, line);
  EXPECT_NE(output_.find(line),
            output_.rfind(line));  // of either set
}

TEST_F(SetUse, RowsOfWeightZeroAreCountedApart) {
  EXPECT_EQ(run(opening("sequences = 5", "shuffle = false") + R"(
local train = xrun.chat({ { path = "chats.jsonl", fields = { weight = "w" } } }, policy)
local ledger = train.ledger.sources[1]
assert(ledger.zero_weight == 4 and ledger.kept == 10)
)" + kLoop,
                "r"),
            "");
  has(output_, "rows of weight 0 are not trained");
}

TEST_F(SetUse, TheNoticeOfAPartialBatchCountsTheStream) {
  const std::string train = "local train = xrun.chat(cfg.data, policy)\n";
  const std::string partial = "the last batch of the data is partial";
  ASSERT_EQ(run(opening("sequences = 4", "epochs = 2") + train + kLoop, "even"), "");
  EXPECT_EQ(output_.find(partial), std::string::npos);  // 20 rows in 5 steps
  ASSERT_EQ(run(opening("sequences = 4", "epochs = 1") + train + kLoop, "rest"), "");
  has(output_, partial + ": 2 of 4 sequences");
  ASSERT_EQ(run(opening("sequences = 5", "epochs = 1") + train + kLoop +
                    "for _, b in run:steps(train, { sequences = 3 }) do adamw:step(b, nll) end\n",
                "second"),
            "");
  has(output_, partial + ": 1 of 3 sequences");
}

TEST_F(SetUse, TheLedgerHasSetsThatAreOpenedAfterTheLoop) {
  ASSERT_EQ(run(opening("sequences = 5") + "local train = xrun.chat(cfg.data, policy)\n" + kLoop +
                    "run:log(run:evaluate(xrun.chat({ { path = 'other.jsonl' } }, policy), nll))\n",
                "r"),
            "");
  const Json ledger = parse_json(read_file("r/ledger.json"), "ledger");
  ASSERT_EQ(ledger.at("sources").size(), 2u);
  EXPECT_EQ(ledger.at("sources").as_array()[1].at("name").as_string(), "other.jsonl");
  has(output_, "other.jsonl: 1 row = 1 kept");
}

TEST_F(SetUse, TheLedgerKeepsSetsThatWereOpenedBeforeAResume) {
  const std::string recipe = opening("sequences = 2", "shuffle = false") + R"(
local train = xrun.chat(cfg.data, policy)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step == 1 then run:log(run:evaluate(xrun.chat({ { path = 'other.jsonl' } }, policy), nll)) end
  run:log(adamw:step(batch, nll))
end
)";
  ASSERT_EQ(run(recipe, "whole"), "");
  ASSERT_EQ(run(recipe, "r", {.steps = 3}), "");
  ASSERT_EQ(run(recipe, "r", {.resume = true}), "");
  EXPECT_EQ(read_file("r/ledger.json"), read_file("whole/ledger.json"));
  EXPECT_EQ(parse_json(read_file("r/ledger.json"), "ledger").at("rows").as_int(), 11);
  ASSERT_EQ(run(recipe, "broken", {.steps = 3}), "");
  write_file_atomic("broken/ledger.json", "{\"sources\": [");
  has(run(recipe, "broken", {.resume = true}),
      "delete the file to continue without the sources that it lists");
}

TEST_F(SetUse, ValidationFilesIgnoreStagesAndRefuseFunctionsOfSingleSources) {
  const std::string staged =
      "mixture = { stages = { { start = 0, weights = { 1, 1 } }, { start = 1, weights = { 1, 2 } "
      "} } }, valid = { data = { { path = 'other.jsonl' } } }";
  const std::string two = "local two = { { path = 'chats.jsonl' }, { path = 'other.jsonl' } }\n";
  EXPECT_EQ(run(opening("sequences = 4", staged) + two +
                    "local train, valid = xrun.chat(two, policy):split(cfg.valid)\n"
                    "assert(#valid == 1)\n",
                "r"),
            "");
  const std::string map = "map = { [1] = function(row) row.completion = 'x' return row end }";
  const auto open = [&](const std::string& sources) {
    return run(opening("sequences = 4", "valid = { data = { { path = 'other.jsonl' } } }") + two +
                   "local _, valid = xrun.chat(" + sources + ", policy, { " + map +
                   " }):split(cfg.valid)\nassert(valid:row(0).text:find('x', 1, true))\n",
               "r", {.resume = true});
  };
  has(open("two"), "map is given per source, but valid.data has other files");
  EXPECT_EQ(open("cfg.data"), "");
}

TEST_F(SetUse, ASplitThatHoldsOutNothingIsReported) {
  write_file_atomic("one.txt", "a text\nof two lines\n");
  const std::string open = "local train, valid = xrun.text({ { path = '";
  const std::string split = "' } }, policy):split { fraction = 0.1 }\n";
  EXPECT_EQ(run(opening("sequences = 1") + open + "one.txt" + split + kLoop, "one"), "");
  has(output_,
      "valid.fraction = 0.1 holds out nothing: one.txt has 1 row, which is trained (rows of a "
      ".txt file");
  write_file_atomic("one.jsonl", "{\"text\":\"a text\"}\n");
  EXPECT_EQ(run(opening("sequences = 1") + open + "one.jsonl" + split + kLoop, "json"), "");
  has(output_, "one.jsonl has 1 row, which is trained; valid.data");
  write_file_atomic("two.txt", "a text\n\nof two rows\n");
  EXPECT_EQ(run(opening("sequences = 1") + open + "two.txt" + split + kLoop, "two"), "");
  EXPECT_EQ(output_.find("holds out nothing"), std::string::npos);
  EXPECT_EQ(run(opening("sequences = 1") + open + "two.txt' }, { path = 'one.txt" + split + kLoop,
                "both"),
            "");
  has(output_, "valid.fraction = 0.1 holds out nothing of a source: one.txt has 1 row");
}

TEST_F(SetUse, AMapThatChangesNothingKeepsNullsInLists) {
  EXPECT_EQ(run(opening("sequences = 4") + R"(
local same = xrun.chat(cfg.data, policy, { map = function(row) return row end })
assert(#same == 10)
local counted = xrun.chat(cfg.data, policy, { map = function(row)
  row.completion = #row.scores .. tostring(row.scores[2] == null) .. tostring(row.scores[1] == null)
  return row
end })
assert(counted:row(0).text:find("4truefalse", 1, true), counted:row(0).text)
)",
                "r"),
            "");
}

TEST_F(SetUse, AMapThatRemovesATurnGivesTheTokensOfAFileWithoutIt) {
  const std::string turns =
      R"({"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[)"
      R"({"function":{"name":"f","arguments":{"zeta":1.0,"alpha":[{"y":2,"x":3}]}}}]},)"
      R"({"role":"tool","content":"b"},{"role":"assistant","content":"c"}]})";
  write_file_atomic("with.jsonl",
                    R"({"messages":[{"role":"system","content":"s"},)" + turns + "\n");
  write_file_atomic("without.jsonl", R"({"messages":[)" + turns + "\n");
  write_file_atomic("calls.jinja",
                    "{% for m in messages %}{{ m.role }}{{ (m.tool_calls | tojson) if m.tool_calls "
                    "}}:{% generation %}{{ m.content }}{{ '<|im_end|>' }}{% endgeneration %}"
                    "{% endfor %}");
  EXPECT_EQ(run(opening("sequences = 4", "template = 'calls.jinja'") + R"(
local mapped = xrun.chat({ { path = "with.jsonl" } }, policy, {
  laws = { bos = false },
  map = function(row) table.remove(row.messages, 1) return row end,
})
local plain = xrun.chat({ { path = "without.jsonl" } }, policy, { laws = { bos = false } })
assert(plain:row(0).text:find('zeta": 1.0', 1, true), plain:row(0).text)
assert(mapped:row(0).text == plain:row(0).text, mapped:row(0).text)
)",
                "r"),
            "");
}

TEST_F(SetUse, TemplateArgumentsHoldForEveryRowBelowItsOwn) {
  write_file_atomic("think.jinja",
                    "{% for m in messages %}{{ m.role }}{{ ' deep' if deep }}:"
                    "{% generation %}{{ m.content }}{{ '<|im_end|>' }}{% endgeneration %}"
                    "{% endfor %}");
  const auto open = [&](const std::string& kwargs) {
    return run(opening("sequences = 4", "template = 'think.jinja'") + R"(
local chats = xrun.chat(cfg.data, policy, { laws = { bos = false }, template_kwargs = )" +
                   kwargs + R"( })
assert(chats:row(0).text:find("user deep:", 1, true), chats:row(0).text)
)",
               "r", {.resume = true});
  };
  EXPECT_EQ(open("{ deep = true }"), "");
  has(open("{ add_generation_prompt = true }"),
      "template_kwargs may not set \"add_generation_prompt\"");
  has(open("3"), "template_kwargs: got 3, wanted a table of named values");
}

TEST_F(SetUse, SlowBytesOfACacheWithFunctionsDoNotDependOnThreads) {
  std::string rows;
  for (int i = 0; i < 3000; ++i) {
    rows += R"({"prompt":"say )" + std::to_string(i) +
            R"(","completion":"it is","opts":{"b":1,"a")" + R"(:2,"long name":3,"c":[4,null]}})" +
            "\n";
  }
  write_file_atomic("many.jsonl", rows);
  const std::string recipe = opening("sequences = 4") + R"(
xrun.chat({ { path = "many.jsonl" } }, policy, {
  filter = function(row) return #row.prompt % 3 ~= 0 end,
  map = function(row)
    for key, value in pairs(row.opts) do row.completion = row.completion .. key end
    return row
  end,
}):verify()
)";
  const auto segments = [&](int threads) {
    const std::string store = "store" + std::to_string(threads);
    setenv("XRUN_CACHE", (folder_ / store).c_str(), 1);
    EXPECT_EQ(run(recipe, "run" + std::to_string(threads), {.threads = threads}), "");
    std::string bytes;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / store)) {
      if (entry.path().extension() == ".bin") files.push_back(entry.path());
    }
    EXPECT_FALSE(files.empty());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) bytes += read_file(file);
    return bytes;
  };
  const std::string one = segments(1);
  EXPECT_EQ(one, segments(2));
  EXPECT_EQ(one, segments(3));
}

}  // namespace xrun::set_use_test
