#pragma once
// A prompt over a recipe that is paused at its loop, as `xrun repl RECIPE.lua` opens it.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lua/bind/run/run_loop.h"
#include "lua/prompt/preview.h"
#include "lua/prompt/prompt_verbs.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun {

class Verbs : public SessionTest {
 protected:
  void open(const std::string& text, std::vector<std::string> sets = {}) {
    prompt_.reset();
    paused_.reset();
    write_file_atomic("test.lua", text);
    RecipeOptions options;
    options.recipe = "test.lua";
    options.threads = 1;
    options.sets = std::move(sets);
    session_ = open_preview(std::move(options), console_);
    paused_ = std::make_shared<PausedRun>(session_->hooks());
    prompt_ = std::make_unique<Prompt>(session_->state(), console_);
    add_step_verbs(*prompt_, paused_, [this] { return paused_->reload(); });
  }
  ~Verbs() override {
    prompt_.reset();
    paused_.reset();
  }

  // Returns the answer of the prompt, "failed: ..." for an error.
  std::string say(const std::string& input) {
    const PromptAnswer answer = prompt_->evaluate(input);
    return (answer.failed ? "failed: " : "") + answer.text;
  }
  bool says(const std::string& input, const std::string& piece) { return has(say(input), piece); }

  std::string said_;
  std::shared_ptr<Console> console_ = std::make_shared<Console>(
      [this](std::string_view text) { said_ += text; }, ConsoleTraits{.width = 100});
  std::unique_ptr<Preview> session_;
  std::shared_ptr<PausedRun> paused_;
  std::unique_ptr<Prompt> prompt_;
  const std::string loop_ =
      "for step, batch in run:steps(train, cfg.batch) do\n"
      "  run:log(adamw:step(batch, dpo))\nend\n";
};

}  // namespace xrun
