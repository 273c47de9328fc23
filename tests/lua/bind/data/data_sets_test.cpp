// Data sets of every kind from Lua: their rows, their ledgers and their resumes.

#include "core/base/file_fault.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::data_sets_test {

class DataSetBinding : public SessionTest {
 protected:
  DataSetBinding() {
    std::string chats, feedback, text, tokens;
    for (int i = 0; i < 12; ++i) {
      const std::string n = std::to_string(i);
      chats +=
          R"({"instruction":"say )" + n + R"(","output":"it is )" + n + "\",\"n\":" + n + "}\n";
      feedback += R"({"prompt":"say )" + n + R"(","completion":"it is","label":)" +
                  (i % 3 == 0 ? "false" : "true") + "}\n";
      text += R"({"text":"a document with the number )" + n + "\"}\n";
      tokens += R"({"input_ids":[1,2,)" + n + R"(,4],"weights":[1,1,0.5,2]})" + "\n";
    }
    write_file_atomic("chats.jsonl", chats);
    write_file_atomic("feedback.jsonl", feedback);
    write_file_atomic("text.jsonl", text);
    write_file_atomic("tokens.jsonl", tokens);
  }
  static std::string opening(const std::string& kind, const std::string& batch,
                             const std::string& more = "") {
    return "local xrun = require 'xrun'\nlocal cfg = xrun.config { model = 'tiny', data = { { path "
           "= '" +
           kind + ".jsonl'" + (kind == "chats" ? ", keep = { 'n' }" : "") +
           " } }, optim = { lr = 1e-3 }, batch = { " + batch + " }, " + more + " }\n" +
           "local policy = xrun.policy(cfg.model)\n"
           "local adamw = xrun.adamw(policy, cfg.optim)\n"
           "local function nll(t) return -policy:token_logprob(t) end\n";
  }
  static constexpr const char* kLoop = R"(
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  if step % 2 == 0 then run:log(run:evaluate(valid, nll)) end
  run:log(adamw:step(batch, nll))
end
run:log(run:evaluate(valid, nll))
run:export(policy)
)";
};

TEST_F(DataSetBinding, AnErrorOfTheDataNamesItsFileBeforeTheRecipe) {
  const std::string text = opening("chats", "sequences = 4", "max_length = 20") +
                           "local train = xrun.chat(cfg.data, policy)\n" + kLoop;
  const std::string error = run(text, "r");
  EXPECT_TRUE(error.starts_with("chats.jsonl:1: the conversation has ")) << error;
  has(error, ", max_length is 20");
  has(error, "\n  row  {\"instruction\":\"say 0\"");
  has(error, "\n  continue with one of\n    --set over_length=drop ");
  EXPECT_TRUE(error.ends_with("\n  read by test.lua:6: local train = xrun.chat(cfg.data, policy)"))
      << error;
}

TEST_F(DataSetBinding, AFractionBesideValidationFilesIsRefusedWithTheFix) {
  const std::string text = opening("chats", "sequences = 4", "valid = { fraction = 0.2 }") +
                           "local train, valid = xrun.chat(cfg.data, policy):split(cfg.valid)\n" +
                           kLoop;
  has(run(text, "r", {.sets = {"valid.data.1.path=chats.jsonl"}}),
      "valid has both fraction = 0.2 and data; --set valid.fraction=0 takes the data alone");
}

TEST_F(DataSetBinding, AFileThatTheSystemDoesNotGiveIsAnErrorOfTheData) {
  const std::string text =
      opening("chats", "sequences = 4", "") + "local train = xrun.chat(cfg.data, policy)\n" + kLoop;
  set_file_fault("read", 2);
  const std::string error = run(text, "r");
  set_file_fault("", 0);
  EXPECT_TRUE(
      error.starts_with("chats.jsonl: cannot be read: Input/output error; the disk or "
                        "network share fails: name a copy of the file on another disk"))
      << error;
  EXPECT_TRUE(error.ends_with("\n  read by test.lua:6: local train = xrun.chat(cfg.data, policy)"))
      << error;
}

TEST_F(DataSetBinding, SlowChatTrainsByTokensAndResumes) {
  expect_same_when_resumed(
      opening("chats", "sequences = 3, max_tokens = 300") +
          "local train, valid = xrun.chat(cfg.data, policy):split { fraction = 0.2 }\n" + kLoop,
      {1, 3});
  has(output_, "10 sequences, ");
  has(output_, " steps of 3 = ");
}

TEST_F(DataSetBinding, SlowTextTrainsInWindowsAndResumes) {
  expect_same_when_resumed(
      opening("text", "tokens = 64, max_tokens = 64", "max_length = 32") +
          "local train, valid = xrun.text(cfg.data, policy):split { fraction = 0.2 }\n" + kLoop,
      {1, 3});
  has(output_, " steps of 2 = ");
}

TEST_F(DataSetBinding, OtherPackingGivesTheSameNumbers) {
  const auto losses = [&](const std::string& max_tokens) {
    EXPECT_EQ(
        run(opening("chats", "sequences = 4, max_tokens = " + max_tokens, "steps = 3") +
                "local train, valid = xrun.chat(cfg.data, policy):split { fraction = 0.2 }\n" +
                kLoop,
            "r" + max_tokens),
        "");
    return values("r" + max_tokens, "train/loss");
  };
  const std::vector<double> one = losses("1000"), many = losses("60");
  ASSERT_EQ(one.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(one[i], many[i], 1e-5);
}

TEST_F(DataSetBinding, FieldsOfASourceAreRefusedAsOptions) {
  has(run(opening("chats", "sequences = 4") +
              "xrun.chat(cfg.data, policy, { keep = { \"score\" } })",
          "r"),
      "`keep` is not an option but a field of each source: data = { { path = ..., keep = ... } }");
}

TEST_F(DataSetBinding, FeedbackHasItsLabel) {
  EXPECT_EQ(run(opening("feedback", "sequences = 12") + R"(
local train = xrun.feedback(cfg.data, policy)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  assert(batch.label:sum():item() == 8, tostring(batch.label))
  run:log(adamw:step(batch, function(f)
    local sign = 2 * f.label - 1
    return { sequence = -(sign * policy:logprob(f)):log_sigmoid() }, { good = f.label }
  end))
end
)",
                "r"),
            "");
}

TEST_F(DataSetBinding, TheOldNameOfLocationNamesTheNewOne) {
  EXPECT_EQ(run(opening("tokens", "sequences = 12") + R"(
local train = xrun.tokens(cfg.data, policy)
assert(train:location(0):find(":1", 1, true), train:location(0))
assert(train:row(0).location == train:location(0))
local ok, message = pcall(function() return train:place(0) end)
assert(not ok and tostring(message):find("it is now `location`", 1, true), tostring(message))
)",
                "r"),
            "");
}

TEST_F(DataSetBinding, TokenRowsTrainWithTheirWeights) {
  EXPECT_EQ(run(opening("tokens", "sequences = 12") + R"(
local train = xrun.tokens(cfg.data, policy)
assert(#train == 12 and #train:row(0).ids == 4 and train:row(0).mask[1] == 0)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  assert(batch.length:sum():item() == 36)
  run:log(adamw:step(batch, nll))
end
)",
                "r"),
            "");
}

TEST_F(DataSetBinding, PromptsAreBatchesWithoutTrainedTokens) {
  EXPECT_EQ(run(opening("chats", "prompts = 5") + R"(
local prompts = xrun.prompts(cfg.data, policy)
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
local seen = 0
for step, batch in run:steps(prompts, cfg.batch) do
  assert(batch.length:sum():item() == 0 and batch.tokens:sum():item() > 0)
  seen = seen + batch.n:numel()
end
assert(seen == 12)
)",
                "r"),
            "");
}

TEST_F(DataSetBinding, ACountThatDoesNotFitTheRowsIsRefused) {
  const auto steps = [&](const std::string& batch) {
    return run(opening("chats", batch) + "local train = xrun.chat(cfg.data, policy)\n" +
                   "local run = xrun.run(cfg, { policy = policy, adamw = adamw })\n" +
                   "for step, batch in run:steps(train, cfg.batch) do end\n",
               "r", {.resume = true});
  };
  has(steps("pairs = 3"),
      "batch.pairs does not fit chat rows, which are counted in sequences: write batch = { "
      "sequences = 8 }");
  has(steps("tokens = 30"),
      "batch.tokens cuts windows of text and token rows; chat rows are whole: write batch = { "
      "sequences = 8 }");
}

TEST_F(DataSetBinding, SlowAMixtureInStagesAndAShuffleByBlocksComeFromTheConfig) {
  expect_same_when_resumed(
      opening(
          "chats", "sequences = 3",
          "steps = 6, shuffle = { block = 2, window = 2 }, mixture = { stop = 'restart', "
          "stages = { { start = 0, weights = { 1, 0 } }, { start = 3, weights = { 0, 1 } } } }") +
          R"(
local two = { { path = "chats.jsonl" }, { path = "feedback.jsonl" } }
local train, valid = xrun.chat(two, policy):split { fraction = 0.2 }
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do
  assert(batch.source:sum():item() == (step < 3 and 0 or 3))
  run:log(adamw:step(batch, nll))
end
run:export(policy)
)",
      {2, 4});
  has(output_, "shuffled by blocks");
}

// ---- functions over rows

TEST_F(DataSetBinding, FilterAndMapRunOverEveryRow) {
  EXPECT_EQ(run(opening("chats", "sequences = 3") + R"(
local chats = xrun.chat(cfg.data, policy, {
  filter = function(row) return row.n % 2 == 0 end,
  map = function(row) row.output = row.output:upper() return row end,
})
assert(#chats == 6)
assert(chats.ledger.sources[1].dropped.filter == 6)
assert(chats:row(1).text:find("IT IS 2", 1, true), chats:row(1).text)
local first = xrun.chat({ cfg.data[1], cfg.data[1] }, policy, {
  filter = { [2] = function(row) return row.n < 3 end },
})
assert(#first == 12 + 3)
local two = xrun.chat({ cfg.data[1], cfg.data[1] }, policy, {
  filter = { [1] = function(row) return row.n < 3 end, [2] = function(row) return row.n > 3 end },
})
assert(#two == 3 + 8, #two)                                  -- two functions on one line
assert(#xrun.chat(cfg.data, policy) == 12)                   -- another key, another cache
local strict = xrun.chat(cfg.data, policy, { strict = true, filter = function(r) return r.n > 3 end })
assert(#strict == 8)
)",
                "r"),
            "");
}

TEST_F(DataSetBinding, ALuaTemplateSpellsTheConversation) {
  EXPECT_EQ(run(opening("chats", "sequences = 3") + R"(
local chats = xrun.chat(cfg.data, policy, {
  template = function(t, messages)
    for _, m in ipairs(messages) do
      t:special "<|im_start|>"
      t:text(m.role .. "\n")
      if m.role == "assistant" then
        t:train(m.content)
        t:train_special "<|im_end|>"
      else
        t:text(m.content)
        t:special "<|im_end|>"
      end
      t:special "\n"
    end
  end,
  laws = { bos = false },
})
local row = chats:row(3)
assert(row.text == "<|im_start|>user\nsay 3<|im_end|>\n<|im_start|>assistant\nit is 3<|im_end|>\n", row.text)
local trained = 0
for _, flag in ipairs(row.mask) do trained = trained + flag end
assert(trained == #"it is 3" + 1, trained)
)",
                "r"),
            "");
}

TEST_F(DataSetBinding, TheResultOfAMapDependsOnlyOnTheRow) {
  EXPECT_EQ(run(opening("chats", "sequences = 3") + R"(
local chats = xrun.chat(cfg.data, policy, {
  map = function(row)
    local seen = {}
    for key in pairs { zeta = 1, alpha = 2, mid = 3, [2] = 4, [1] = 5, beta = 6 } do
      seen[#seen + 1] = tostring(key)
    end
    assert(next({}) == nil and next { a = 1 } == "a")
    row.output = table.concat(seen, " ") .. ("x"):rep(2)
    return row
  end,
})
assert(chats:row(0).text:find("1 2 alpha beta mid zetaxx", 1, true), chats:row(0).text)
)",
                "r"),
            "");
}

TEST_F(DataSetBinding, AFunctionThatCannotRunOnAWorkerIsRefused) {
  const auto open = [&](const std::string& options) {
    return run(opening("chats", "sequences = 3") +
                   "local least = 3\nxrun.chat(cfg.data, policy, { " + options + " })\n",
               "r", {.resume = true});
  };
  has(open("filter = function(r) return r.n > least end"),
      "uses `least`, a local from outside: it runs on other threads");
  has(open("filter = print"), "filter: got function, wanted a Lua function");
  has(open("filter = 3"), "filter: got 3, wanted a function, or one per source");
  has(open("map = { [3] = function(r) return r end }"), "map[3]: data has 1 source");
  has(open("map = function(r) return nil end"), "map: returned nil, wanted the row");
  has(open("map = function(r) return nil end"), "chats.jsonl:1");
  has(open("map = { [1.5] = function(r) return r end }"),
      "map: the key 1.5 is not the number of a source");
  has(open("filter = function(r) return r.n end"),
      "filter: returned 0, wanted true (keep) or false");
  has(open("filter = function(r) return os.time() > 0 end"), "there is no `os` here");
  has(open("filter = function(r) return r.m.x end"), "attempt to index field 'm'");
  has(open("filter = function(r) count = 1 return true end"), "may not set the global `count`");
  has(open("filter = function(r) string.n = 1 return true end"), "may not change a library");
  has(open("filter = function(r) rawset(_G, 'n', 1) return true end"), "there is no `rawset` here");
  has(open("template = function(t) t.n = 1 end, laws = { bos = false }"),
      "a template may not assign to its first argument");
}

}  // namespace xrun::data_sets_test
