// xrun.preference from Lua: options, splits, the ledger, the comparison at a resume.

#include "tests/lua/bind/session_fixture.h"

namespace xrun::preference_rows_test {

class PreferenceBinding : public SessionTest {
 protected:
  // Copies `rows` rows of the pairs.
  void write_pairs(const std::string& file, size_t rows) {
    const std::string text = read_file("pairs.jsonl");
    size_t end = 0;
    while (rows-- > 0) end = text.find('\n', end) + 1;
    write_file_atomic(file, text.substr(0, end));
  }
  static constexpr const char* kLoop =
      "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, dpo)) end\n"
      "run:log(run:evaluate(valid, dpo))\n";
};

TEST_F(PreferenceBinding, ASplitByOtherFilesKeepsTheOptions) {
  EXPECT_EQ(run(head() + R"(
local whole = xrun.preference(cfg.data, policy, { max_length = 145, over_length = "drop" })
local a, b = whole:split { data = { { path = "pairs.jsonl" } } }
assert(#a < 24 and #a == #b, #a .. " " .. #b)
)",
                "r"),
            "");
}

TEST_F(PreferenceBinding, SlowSplitsByPromptAndByFileResume) {
  write_pairs("other.jsonl", 5);
  expect_same_when_resumed(head("by = \"prompt\", fraction = 0.2") + kLoop + kExport, {2});
  std::filesystem::remove_all("whole");
  std::filesystem::remove_all("stopped_2");
  expect_same_when_resumed(head("data = { { path = \"other.jsonl\" } }") + kLoop + kExport, {2});
}

TEST_F(PreferenceBinding, ChangedValidationDataAreRefusedOnAResume) {
  write_pairs("other.jsonl", 9);
  const std::string text = head("data = { { path = \"other.jsonl\" } }") + kLoop;
  ASSERT_EQ(run(text, "r", {.steps = 2}), "");
  write_pairs("other.jsonl", 5);
  const std::string error = run(text, "r", {.resume = true});
  has(error, "cannot resume: data set 2 (other.jsonl) has changed since the run began:\n  data.1.");
  EXPECT_EQ(output_.find("saved in"), std::string::npos) << output_;
  ASSERT_EQ(run(text, "r", {.resume = true, .force = true}), "");
  has(output_, "resuming by --force: data set 2 (other.jsonl)");
}

TEST_F(PreferenceBinding, AChangedModuleIsRefusedOnAResume) {
  write_file_atomic("scale.lua", "return 1");
  const std::string text = head() + "local scale = require './scale'\n" + kLoop;
  ASSERT_EQ(run(text, "r", {.steps = 2}), "");
  write_file_atomic("scale.lua", "return 99");
  has(run(text, "r", {.resume = true}),
      "cannot resume: the module scale.lua has changed since the run began:\n  digest: ");
  write_file_atomic("scale.lua", "return 1");
  EXPECT_EQ(run(text, "r", {.resume = true}), "");
}

TEST_F(PreferenceBinding, TheLedgerListsEverySource) {
  const std::string twice = "data={{path='pairs.jsonl'},{path='pairs.jsonl',weight=2}}";
  write_pairs("other.jsonl", 5);
  ASSERT_EQ(run(head("data = { { path = \"other.jsonl\" } }") + kLoop, "r", {.sets = {twice}}), "");
  const Json ledger = read_json("r/ledger.json");
  ASSERT_EQ(ledger.at("sources").size(), 3u);
  EXPECT_EQ(ledger.at("rows").as_int(), 24 + 24 + 5);
  EXPECT_EQ(ledger.at("sources").as_array()[2].at("rows").as_int(), 5);
}

TEST_F(PreferenceBinding, TemplatesSeeTheDateOnWhichTheRunBegan) {
  write_file_atomic("dated.jinja",
                    "{{ strftime_now('%Y-%m-%d') }} {% for m in messages %}{% if m.role == "
                    "'assistant' %}{% generation %}{{ m.content + eos_token }}{% endgeneration %}"
                    "{% else %}{{ m.content }} {% endif %}{% endfor %}");
  const std::vector<std::string> sets = {"template=dated.jinja", "laws={bos=false}"};
  ASSERT_EQ(run(head() + kLoop, "r", {.steps = 2, .sets = sets}), "");
  Json record = read_json("r/run.json");
  ASSERT_EQ(record.at("date").as_string().size(), 10u);
  // A run that began on another day still renders that day's date.
  record.set("date", "2024-07-26");
  write_file_atomic("r/run.json", dump_json(record));
  has(run(head() + kLoop, "r", {.resume = true, .sets = sets}),
      "cannot resume: data set 1 (pairs.jsonl)");
  EXPECT_EQ(run(head() + kLoop, "r", {.resume = true, .sets = sets, .force = true}), "");
  EXPECT_EQ(read_json("r/run.json").at("date").as_string(), "2024-07-26");
}

TEST_F(PreferenceBinding, ASetThatOpensAfterTheRunKeepsTheDateToo) {
  const std::string opens =
      "local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)\n";
  std::string text = head();
  text.erase(text.find(opens), opens.size());
  text += opens + kLoop;
  ASSERT_EQ(run(text, "r", {.steps = 2}), "");
  Json record = read_json("r/run.json");
  ASSERT_NE(record.find("date"), nullptr);
  ASSERT_EQ(record.at("date").as_string().size(), 10u);
  record.set("date", "2024-07-26");
  write_file_atomic("r/run.json", dump_json(record));
  ASSERT_EQ(run(text, "r", {.resume = true}), "");
  EXPECT_EQ(read_json("r/run.json").at("date").as_string(), "2024-07-26");
}

TEST_F(PreferenceBinding, TablesGivenDirectlyAreCheckedLikeTheConfig) {
  const auto open = [&](const std::string& arguments) {
    return run(head() + "xrun.preference(" + arguments + ")\n", "r", {.resume = true});
  };
  has(open("{ { path = 'pairs.jsonl', weigth = 3 } }, policy"), "data.1 has no `weigth`");
  has(open("{ { path = 'pairs.jsonl', weigth = 3 } }, policy"), "did you mean `weight`?");
  has(open("{ { path = 3 } }, policy"), "data.1.path: got 3, wanted text");
  has(open("{ { weight = 3 } }, policy"), "data.1.path is missing");
  has(open("{ { path = 'pairs.jsonl', keep = 'topic' } }, policy"), "data.1.keep: got \"topic\"");
  has(open("{}, policy"), "data: got an empty table, wanted a list of sources");
  has(open("5, policy"), "data: got 5, wanted a list of sources");
  has(open("cfg.data, policy, { max_length = -3 }"), "max_length: got -3, wanted a whole number");
  has(open("cfg.data, policy, { max_lenght = 3 }"), "there is no option `max_lenght`");
  has(run(head() + "train:split { fraction = 2 }\n", "r", {.resume = true}),
      "valid.fraction: got 2");
}

}  // namespace xrun::preference_rows_test
