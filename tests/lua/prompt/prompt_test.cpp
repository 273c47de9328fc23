// Inputs at a prompt: their values, the scope of names, error messages, interruption.

#include <csignal>
#include <fstream>
#include <thread>

#include "core/base/file.h"
#include "core/base/interrupt.h"
#include "lua/prompt/prompt_verbs.h"
#include "tests/error_of.h"
#include "tests/lua/prompt/prompt_fixture.h"

namespace xrun::prompt_test {
namespace {

TEST_F(PromptTest, ExpressionsShowTheirValuesAndStatementsNothing) {
  EXPECT_EQ(say("1 + 1"), "2");
  EXPECT_EQ(say("1, 'a', nil"), "1\n\"a\"\nnil");
  EXPECT_EQ(say("x = 5"), "");
  EXPECT_EQ(say("= x"), "5");
  EXPECT_EQ(say("(function() end)()"), "");
  EXPECT_EQ(say("  \n "), "");
  EXPECT_EQ(say("-- a comment"), "");
}

TEST_F(PromptTest, TheLastValueIsAName) {
  EXPECT_TRUE(says("_", "`_` is not defined"));
  say("6 * 7");
  EXPECT_EQ(say("_ + 1"), "43");
  say("x = 1");
  EXPECT_EQ(say("_"), "43");
}

TEST_F(PromptTest, ExitAndQuitLeaveUnlessTheyAreNames) {
  for (const char* word : {"exit", "quit", " quit() ", "exit()"}) {
    prompt_->stay();
    EXPECT_EQ(say(word), "");
    EXPECT_TRUE(prompt_->leaving()) << word;
  }
  prompt_->stay();
  say("quit = 7");
  EXPECT_EQ(say("quit"), "7");
  EXPECT_FALSE(prompt_->leaving());
}

TEST_F(PromptTest, TopLevelLocalsPersistAndFunctionsSeeThem) {
  EXPECT_EQ(say("local n = 1"), "");
  EXPECT_EQ(say("local function next_n() n = n + 1; return n end"), "");
  EXPECT_EQ(say("next_n()"), "2");
  EXPECT_EQ(say("n"), "2");
  EXPECT_EQ(say("local a, b"), "");
  EXPECT_EQ(say("a, b"), "nil\nnil");
  EXPECT_EQ(say("do local hidden = 1 end"), "");
  EXPECT_TRUE(says("hidden", "`hidden` is not defined"));
}

TEST_F(PromptTest, AnUnknownNameNamesTheNearestOne) {
  say("margin = 1");
  EXPECT_EQ(
      say("margn"),
      "failed: input 2:1: `margn` is not defined\n     1 | margn\n       | ^^^^^\n  hint: did you "
      "mean `margin`?");
}

TEST_F(PromptTest, HabitsAndVerbsOfARecipeAreExplained) {
  register_verb_docs(recipe_.state());
  say("1 + 1");
  EXPECT_TRUE(says("print(f\"a\")", "hint: Lua has no f\"...\""));
  EXPECT_TRUE(says("F.relu(1)", "hint: here it is xrun.relu(x), or the method x:relu()"));
  EXPECT_TRUE(says("step()", "hint: it is a verb of an open recipe: xrun repl RECIPE.lua"));
}

TEST_F(PromptTest, ErrorsShowWhatWasTyped) {
  EXPECT_TRUE(says("xrun.ones(2, 3):matmul(xrun.ones(2))", "input 1:1: "));
  EXPECT_EQ(say("local function f(t)\n  return t.x.y\nend"), "");
  EXPECT_TRUE(says("f({})", "2 |   return t.x.y")) << "the line of an earlier input";
  EXPECT_EQ(say("foo bar"),
            "failed: input 4:1: '=' expected near 'bar'\n     1 | foo bar\n       | "
            "    ^^^");
}

TEST_F(PromptTest, ControlsInAnErrorDoNotReachTheTerminal) {
  const std::string text = say("error('a\\27[31mb\\0\\226\\128\\174c')");
  for (const char c : text) EXPECT_FALSE(static_cast<unsigned char>(c) < 32 && c != '\n') << text;
  EXPECT_NE(text.find("<1B>"), std::string::npos) << text;
}

TEST_F(PromptTest, BytecodeIsAnErrorOfItsInputAlone) {
  for (const std::string code :
       {"\x1bLJabc", "  \x1bLJ", "\xef\xbb\xbf\x1bLJ\x02", "# x\n\x1bLJ"}) {
    EXPECT_FALSE(prompt_->wants_more(code));
    EXPECT_TRUE(prompt_->evaluate(code).failed);
  }
  EXPECT_TRUE(says("\x1bLJabc", "this is bytecode; inputs are text"));
  EXPECT_EQ(say("2 + 2"), "4");
}

TEST_F(PromptTest, ANanHasNoSign) {
  EXPECT_EQ(say("-(0/0)"), "nan");
  EXPECT_EQ(say("0/0"), "nan");
  EXPECT_EQ(say("{ 0/0, -(0/0) }"), "{ nan, nan }");
  EXPECT_EQ(say("xrun.tensor({ 0/0, -(0/0) })"), "f32[2] cpu\n [nan, nan]");
}

TEST_F(PromptTest, DetectsIncompleteInput) {
  for (const char* more :
       {"for i = 1, 3 do", "f(", "x =", "1 +", "{ 1,", "function f()\n  return 1", "if x then",
        "[[a", "--[[ a", ":time for i = 1, 3 do", "return {"}) {
    EXPECT_TRUE(prompt_->wants_more(more)) << more;
  }
  for (const char* whole : {"", " \n", "x", "x = 1", "for i = 1, 3 do end", "foo bar", "'open",
                            ":help", ":time f()", ":nothing (", "1 + 1", "end",
                            "x ="
                            " 1 2"}) {
    EXPECT_FALSE(prompt_->wants_more(whole)) << whole;
  }
}

TEST_F(PromptTest, AScriptsErrorsNameItsLines) {
  const auto first = prompt_->evaluate("local function f()\n  error 'no'\nend", "@s.lua", 1);
  EXPECT_FALSE(first.failed);
  const auto second = prompt_->evaluate("f()", "@s.lua", 5);
  EXPECT_TRUE(second.failed);
  EXPECT_NE(second.text.find("s.lua:2: no\n     2 |   error 'no'"), std::string::npos)
      << second.text;
  EXPECT_NE(second.text.find("called from s.lua:5"), std::string::npos) << second.text;
}

// Names of a frame, like those of a paused recipe.
class TwoNames : public PromptNames {
 public:
  explicit TwoNames(double beta) : beta_(beta) {}
  bool read(lua_State* L, const std::string& name) override {
    if (name != "beta" && name != "gone") return false;
    if (name == "beta") {
      lua_pushnumber(L, beta_);
    } else {
      lua_pushnil(L);
    }
    return true;
  }
  bool write(lua_State* L, const std::string& name) override {
    if (name != "beta") return false;
    beta_ = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return true;
  }
  std::vector<std::string> names() override { return {"beta"}; }
  double beta_;
};

TEST_F(PromptTest, AFramesNamesComeFirstAndAreAssignedInPlace) {
  const auto frame = std::make_shared<TwoNames>(0.5);
  say("beta = 1");
  prompt_->set_names(frame);
  EXPECT_EQ(say("beta"), "0.5");
  EXPECT_EQ(say("gone"), "nil");
  say("local beta = 0.25");
  EXPECT_EQ(frame->beta_, 0.25);
  EXPECT_EQ(candidates("bet"), "0: beta");
  prompt_->set_names(nullptr);
  EXPECT_EQ(say("beta"), "1");
}

TEST_F(PromptTest, AVerbHidesTheFramesName) {
  prompt_->set_names(std::make_shared<TwoNames>(0.5));
  prompt_->add_verb("beta", {}, {"integer"}, "Gives twelve.", [](lua_State* L) {
    lua_pushnumber(L, 12);
    return 1;
  });
  EXPECT_EQ(say("beta()"), "12");
}

TEST_F(PromptTest, AFunctionTypedAtThePromptOutlivesIt) {
  say("scale = 3");
  say("function twice(x) return scale * x end");
  ASSERT_TRUE(prompt_->push_name("twice"));
  lua_State* L = prompt_->lua();
  prompt_.reset();
  lua_pushnumber(L, 2);
  protected_call(L, 1, 1);
  EXPECT_EQ(lua_tonumber(L, -1), 6.0);
}

TEST_F(PromptTest, VerbsAreDocumentedNames) {
  prompt_->add_verb("count_up", {{"n", "integer"}}, {"integer"}, "Counts one up.",
                    [](lua_State* L) {
                      lua_pushnumber(L, lua_tonumber(L, 1) + 1);
                      return 1;
                    });
  EXPECT_EQ(say("count_up(4)"), "5");
  EXPECT_TRUE(says(":help", "Counts one up."));
  EXPECT_TRUE(says(":doc count_up", "Counts one up."));
}

TEST_F(PromptTest, VerbsWorkOnlyAtAPrompt) {
  EXPECT_EQ(message_of<Error>([&] { Prompt::of(prompt_->lua()); }),
            "this works only at the prompt of xrun repl");
}

// ---- interruption

class PromptInterruption : public PromptTest {
 protected:
  // Returns the answer to an input that is interrupted after 50 ms; fails if stopping takes a
  // second.
  std::string stopped(const std::string& input) {
    std::thread sender([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      request_interrupt(SIGINT);
      LuaState::interrupt_from_signal(SIGINT);
    });
    const auto began = std::chrono::steady_clock::now();
    const std::string text = say(input);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(1)) << input;
    sender.join();
    return text;
  }
};

TEST_F(PromptInterruption, StopsAHotLoopAndKeepsTheSession) {
  say("n = 0");
  EXPECT_EQ(stopped("while true do n = n + 1 end"), "failed: interrupted at input 2:1");
  EXPECT_FALSE(interrupt_requested());
  EXPECT_EQ(say("n > 0"), "true");
  EXPECT_EQ(stopped("while true do pcall(function() while true do end end) end").substr(0, 19),
            "failed: interrupted");
  EXPECT_EQ(say("1"), "1");
}

TEST_F(PromptInterruption, StopsBetweenOperations) {
  EXPECT_EQ(stopped("local t = xrun.ones(64, 64)\nfor i = 1, 1e9 do t = t:matmul(t):sigmoid() end")
                .substr(0, 19),
            "failed: interrupted");
  EXPECT_EQ(stopped(":time while true do end").substr(0, 19), "failed: interrupted");
}

TEST_F(PromptInterruption, ASignalThatEndsThePromptOutlivesTheAnswerToACtrlC) {
  PromptCommand late;  // a Ctrl-C, and SIGTERM before it is answered
  late.name = "late";
  late.doc = "Ends in an interruption.";
  late.run = [](Prompt&, std::string_view) -> std::string {
    request_interrupt(SIGTERM);
    LuaState::interrupt_from_signal(SIGTERM);
    throw Interrupted(SIGINT);
  };
  prompt_->add(late);
  EXPECT_EQ(say(":late"), "failed: interrupted");
  EXPECT_EQ(interrupt_signal(), SIGTERM);
  EXPECT_EQ(signal_of([&] { prompt_->evaluate("while true do end"); }), SIGTERM);
  LuaState::clear_interrupt();
  clear_interrupt();
}

TEST_F(PromptInterruption, AnotherSignalEndsThePrompt) {
  request_interrupt(SIGTERM);
  LuaState::interrupt_from_signal(SIGTERM);
  EXPECT_EQ(signal_of([&] { prompt_->evaluate("while true do end"); }), SIGTERM);
  LuaState::clear_interrupt();
  clear_interrupt();
}

}  // namespace
}  // namespace xrun::prompt_test
