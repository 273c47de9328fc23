// Colon commands and completion answer from the names in use and run no code.

#include <filesystem>

#include "core/base/file.h"
#include "tests/lua/prompt/prompt_fixture.h"
#include "tests/scratch_folder.h"

namespace xrun::prompt_commands_test {
namespace {

TEST_F(PromptTest, HelpListsEveryCommandWithADescription) {
  const std::string text = say(":help");
  for (const PromptCommand& command : prompt_->commands()) {
    EXPECT_NE(text.find(":" + command.name), std::string::npos) << command.name;
    EXPECT_FALSE(command.doc.empty()) << command.name;
  }
  for (const char* name : {"help", "doc", "ops", "type", "time", "prof", "mem", "src", "set",
                           "save", "batch", "reload", "quit"}) {
    EXPECT_NE(text.find(std::string(":") + name), std::string::npos) << name;
  }
}

// If the verbs of a recipe are present, its commands come first; at a bare prompt they come last.
TEST_F(PromptTest, HelpBeginsWithTheCommandsOfTheRecipe) {
  std::string text = say(":help");
  EXPECT_LT(text.find(":time CHUNK"), text.find(":reload"));
  prompt_->add_verb("leap", {}, {}, "One body.", [](lua_State*) { return 0; });
  text = say(":help");
  EXPECT_EQ(text.find("leap()"), 0u) << text;
  EXPECT_LT(text.find(":reload"), text.find(":time CHUNK"));
  EXPECT_LT(text.find(":set KEY VALUE"), text.find(":help [NAME]"));
}

TEST_F(PromptTest, AnUnknownCommandNamesTheNearest) {
  EXPECT_EQ(say(":tme x"), "failed: there is no :tme; did you mean `:time`?");
}

TEST_F(PromptTest, DocFindsKeysFunctionsMethodsOperatorsAndValues) {
  EXPECT_TRUE(says(":doc optim.lr", "optim.lr: "));
  EXPECT_TRUE(says(":doc policy", "xrun.policy(model: string|xrun.Config.model, "));
  EXPECT_TRUE(says(":doc Policy:logprob", "Policy:logprob(view"));
  EXPECT_TRUE(says(":doc sum", "sum(Tensor self, int[]? dim, bool keepdim=False"));
  EXPECT_TRUE(says(":doc xrun.ops.xrun.linear_head", "linear_head("));
  say("t = xrun.ones(2)");
  EXPECT_TRUE(says(":doc t:shape", "Tensor.shape"));
  EXPECT_TRUE(says(":doc t:cumsum", "cumsum(Tensor self"));
  EXPECT_TRUE(says(":doc time", ":time CHUNK: "));
  EXPECT_TRUE(says(":doc t", "t = f32[2] cpu"));
  EXPECT_TRUE(says(":doc nothing_like_it", "failed: unknown name nothing_like_it"));
}

TEST_F(PromptTest, OpsTakesAPieceOfANameOrAPattern) {
  EXPECT_TRUE(says(":ops logsumexp", "logsumexp"));
  EXPECT_TRUE(says(":ops inear_hea*", "failed: no operator matches"));
  EXPECT_TRUE(says(":ops *linear_hea*", "xrun.ops.xrun.linear_head\n1 operator;"));
}

TEST_F(PromptTest, TypeShowsNoValues) {
  EXPECT_EQ(say(":type xrun.ones(2, 3), 1, 'a', { 1, 2, x = 3 }"),
            "Tensor f32[2,3] cpu\nnumber\nstring\ntable, 2 in a list, 3 in all");
  EXPECT_EQ(say(":type 1"), "number");
}

TEST_F(PromptTest, SrcShowsAFunctionAsItWasTyped) {
  say("function f(x)\n  return x + 1\nend");
  EXPECT_EQ(say(":src f"), "input 1:1\n    1 | function f(x)\n    2 |   return x + 1\n    3 | end");
  EXPECT_TRUE(says(":src xrun.tensor", "function xrun.tensor(values: table|number|boolean"));
  EXPECT_TRUE(says(":src 1", "1 is not a function"));
}

TEST_F(PromptTest, TimePrintsSecondsAndBytes) {
  EXPECT_TRUE(says(":time xrun.ones(1000, 1000)", " s; tensors on the CPU: "));
  EXPECT_TRUE(says(":time error 'no'", "failed: "));
  EXPECT_TRUE(says(":time", "wanted :time CHUNK"));
}

TEST_F(PromptTest, MemListsTheMemoryInUse) {
  EXPECT_TRUE(says(":mem", "Lua's heap"));
  EXPECT_TRUE(says(":mem", "tensors with a Lua handle"));
}

TEST_F(PromptTest, SaveWritesTheInputsThatWorked) {
  const ScratchFolder folder;
  const auto file = folder.path() / "xrun_prompt_save.lua";
  say("x = 1");
  say("y = ");
  say(":type x");
  say("x + 1");
  EXPECT_TRUE(says(":save " + file.string(), "2 inputs in "));
  EXPECT_EQ(read_file(file),
            "-- Inputs of a prompt; xrun repl < " + file.string() + "\nx = 1\nx + 1\n");
  EXPECT_TRUE(says(":save " + file.string(), " exists; choose another name"));
}

TEST_F(PromptTest, CommandsThatNeedARecipeFailWithoutOne) {
  EXPECT_TRUE(says(":batch", "failed: this needs a recipe paused at its loop"));
  EXPECT_TRUE(says(":reload", "failed: this needs a recipe paused at its loop"));
  EXPECT_TRUE(says(":set beta 1", "failed: there is no config"));
}

TEST_F(PromptTest, QuitLeaves) {
  EXPECT_FALSE(prompt_->leaving());
  say(":quit");
  EXPECT_TRUE(prompt_->leaving());
}

// ---- completion

TEST_F(PromptTest, CompletesNamesFieldsAndMethods) {
  say("margins = xrun.ones(4)\nsettings = { beta = 1, batch = { pairs = 2 } }");
  EXPECT_EQ(candidates("marg"), "0: margins");
  EXPECT_EQ(candidates("1 + settings.b"), "13: batch beta");
  EXPECT_EQ(candidates("settings.batch."), "15: pairs");
  EXPECT_EQ(candidates("margins:log_sig"), "8: log_sigmoid log_sigmoid_forward");
  EXPECT_EQ(candidates("margins.sh"), "8: shape");
  EXPECT_EQ(candidates("xrun.shuf"), "5: shuffle");
  EXPECT_EQ(candidates("xrun.ops.xrun.linear_h"), "14: linear_head");
  EXPECT_EQ(candidates("repea"), "0: repeat");
}

TEST_F(PromptTest, CompletesThroughCallsByTheirDocStrings) {
  EXPECT_EQ(candidates("xrun.tensor({1, 2}):cumsu"), "20: cumsum cumsum_");
  EXPECT_EQ(candidates("xrun.ones(3):sum():tolis"), "19: tolist");
  EXPECT_EQ(candidates("xrun.policy('x'):token_lo"), "17: token_logprob");
  EXPECT_EQ(candidates("xrun.tokenizer('x'):enc"), "20: encode");
}

TEST_F(PromptTest, CompletesKeywordsOfOperatorsAndOptions) {
  say("t = xrun.ones(4)");
  EXPECT_EQ(candidates("t:sum(-1, { keep"), "12: keepdim = ");
  EXPECT_EQ(candidates("xrun.tensor({ 1, 2 }, { dt"), "24: dtype = ");
  EXPECT_EQ(candidates("t:sum { keepdim = true, dty"), "24: dtype = ");
}

TEST_F(PromptTest, CompletesFilesInTextAndCommands) {
  const ScratchFolder scratch;
  const auto& folder = scratch.path();
  std::filesystem::create_directories(folder / "pairs");
  write_file_atomic(folder / "pairs.jsonl", "");
  write_file_atomic(folder / "pa\x1b[31m", "");
  EXPECT_EQ(candidates("xrun.text('" + folder.string() + "/pa"),
            "11: " + (folder / "pairs.jsonl").string() + " " + (folder / "pairs").string() + "/");
  EXPECT_EQ(candidates(":ti"), "0: :time ");
  EXPECT_EQ(candidates(":doc optim.l"), "5: optim.lr");
  EXPECT_EQ(candidates(":time xrun.shuf"), "11: shuffle");
  EXPECT_EQ(candidates("'no such folder/"), "1:");
}

TEST_F(PromptTest, CompletionRunsNothingAndAnswersWithin30Milliseconds) {
  say("t = xrun.ones(4)\ntrap = setmetatable({}, { __index = function() error 'ran' end })");
  candidates("t:");  // reads the operators once
  const auto began = std::chrono::steady_clock::now();
  for (const char* text :
       {"t:", "t:s", "xrun.", "xrun.ops.aten.", "", "trap.x.y", "t:sum(-1, { "}) {
    candidates(text);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
  std::printf("a completion: %.2f ms\n", taken.count() / 7 * 1e3);
  EXPECT_LT(taken.count() / 7, 0.03);
  EXPECT_EQ(printed_, "");
}

TEST_F(PromptTest, CompletionOfAnyTextEnds) {
  EXPECT_EQ(candidates("({ no_such_n"), "3:");  // a bracket that no name precedes
  const std::string text = "f(t:sum(-1,{x={[1]=\"a'b\",c..d:e('x').y[3]:z{ --[[ q ]] 'w";
  for (size_t cursor = 0; cursor <= text.size(); ++cursor) {
    for (size_t begin = 0; begin < cursor; begin += 3) {
      prompt_->complete(text.substr(begin), cursor - begin);
    }
  }
}

}  // namespace
}  // namespace xrun::prompt_commands_test
