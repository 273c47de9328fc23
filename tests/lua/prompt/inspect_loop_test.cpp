// The step of a paused loop as the prompt shows it.

#include "lua/prompt/inspect_loop.h"

#include "core/train/models/policy.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/preview.h"
#include "lua/prompt/prompt.h"
#include "lua/prompt/prompt_verbs.h"
#include "tests/error_of.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::inspect_loop_test {
namespace {

class InspectLoop : public SessionTest {
 protected:
  std::unique_ptr<Preview> open(const std::string& text) {
    write_file_atomic("test.lua", text);
    RecipeOptions options;
    options.recipe = "test.lua";
    options.threads = 1;
    return open_preview(std::move(options), console_);
  }

  std::shared_ptr<Console> console_ =
      std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{.width = 100});
  const std::string loop_ =
      "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, dpo)) end\n";
};

TEST_F(InspectLoop, ShowsThePacksThatTrainWithoutWeights) {
  const auto session = open(head() + loop_);
  const LoopPause& pause = *session->pause();
  for (const int64_t step : {0, 3}) {
    const std::vector<InspectedStep> sets = inspect_loop(pause, "test.lua", step);
    const std::vector<PackedBatch> packs = pause.loop->packs(step);
    ASSERT_EQ(sets.size(), 1u);
    ASSERT_EQ(sets[0].packs.size(), packs.size());
    for (size_t p = 0; p < packs.size(); ++p) {
      std::vector<int32_t> tokens;
      for (const InspectedSegment& segment : sets[0].packs[p].segments) {
        EXPECT_FALSE(segment.turns.empty());
        for (const InspectedToken& token : segment.tokens) tokens.push_back(token.id);
      }
      EXPECT_EQ(tokens, packs[p].tokens);
    }
  }
  EXPECT_FALSE(session->session().models.policies().front()->loaded());
}

TEST_F(InspectLoop, AStepOutsideTheLoopIsRefused) {
  const auto session = open(head() + loop_);
  EXPECT_EQ(message_of<Error>([&] { inspect_loop(*session->pause(), "test.lua", 4); }),
            "this loop has no step 4; its steps are 0 to 3");
}

TEST_F(InspectLoop, ThePromptShowsRowsOfTheCurrentBatch) {
  const auto session = open(head() + loop_);
  const auto paused = std::make_shared<PausedRun>(session->hooks());
  Prompt prompt(session->state(), console_);
  add_step_verbs(prompt, paused, nullptr);
  EXPECT_TRUE(has(prompt.evaluate(":batch 1").text, "4 pairs · 1 shown"));
  EXPECT_TRUE(has(prompt.evaluate(":batch 1").text, "<|im_start|>"));
  EXPECT_TRUE(has(prompt.evaluate(":batch x").text, ":batch x: wanted a number of rows"));
}

}  // namespace
}  // namespace xrun::inspect_loop_test
