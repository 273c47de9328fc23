#pragma once
// A prompt over a state without a recipe, as `xrun repl` opens it.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "lua/bind/modules.h"
#include "lua/bind/session.h"
#include "lua/prompt/prompt.h"

namespace xrun {

class PromptTest : public testing::Test {
 protected:
  explicit PromptTest(int width = 80) : recipe_(RecipeOptions{}, engine_modules(), "") {
    at::set_num_threads(1);
    auto console = std::make_shared<Console>(
        [this](std::string_view text) { printed_ += text; },
        ConsoleTraits{.terminal = false, .colors = ColorDepth::kNone, .width = width});
    session_of(recipe_.state()).console = console;
    prompt_ = std::make_unique<Prompt>(recipe_.state(), console);
    recipe_.state().push_module(recipe_.state());
    prompt_->assign("xrun");
    LuaState::set_interruptible(&recipe_.state());
  }
  ~PromptTest() override { LuaState::set_interruptible(nullptr); }

  // The answer of the prompt; "failed: ..." for an error.
  std::string say(const std::string& input) {
    const PromptAnswer answer = prompt_->evaluate(input);
    return (answer.failed ? "failed: " : "") + answer.text;
  }
  bool says(const std::string& input, const std::string& piece) {
    const std::string text = say(input);
    if (text.find(piece) != std::string::npos) return true;
    ADD_FAILURE() << text << "\n  lacks: " << piece;
    return false;
  }
  // The candidates for completing a text at its end, as "begin: a b c".
  std::string candidates(const std::string& text, size_t most = 8) {
    const Completions found = prompt_->complete(text, text.size());
    std::string out = std::to_string(found.begin) + ":";
    for (size_t i = 0; i < found.candidates.size() && i < most; ++i)
      out += " " + found.candidates[i].text;
    return out;
  }

  Recipe recipe_;
  std::string printed_;
  std::unique_ptr<Prompt> prompt_;
};

}  // namespace xrun
