// A recipe run up to its loop and paused there, without weights and without a trace.

#include "lua/prompt/preview.h"

#include "core/train/models/policy.h"
#include "lua/bind/run/run_loop.h"
#include "tests/error_of.h"
#include "tests/lua/bind/run/two_phases.h"

namespace xrun::preview_test {
namespace {

class PreviewTest : public TwoPhases {
 protected:
  std::unique_ptr<Preview> open(const std::string& text, std::vector<std::string> sets = {}) {
    write_file_atomic("test.lua", text);
    RecipeOptions options;
    options.recipe = "test.lua";
    options.threads = 1;
    options.sets = std::move(sets);
    return open_preview(std::move(options), console_);
  }

  // Evaluates an expression over the names of the session; returns tostring of it.
  static std::string value(Preview& session, const std::string& name) {
    lua_State* L = session.state();
    const StackGuard guard(L);
    lua_getglobal(L, "tostring");
    if (!session.names().push(L, name)) return "no " + name;
    lua_call(L, 1, 1);
    return lua_tostring(L, -1);
  }

  static void assign(Preview& session, const std::string& name, const std::string& code) {
    lua_State* L = session.state();
    ASSERT_EQ(luaL_loadstring(L, ("return " + code).c_str()), 0);
    protected_call(L, 0, 1);
    ASSERT_TRUE(session.names().set(L, name));
  }

  static bool knows(Preview& session, const std::string& name) {
    const FrameNames names = session.names();
    return std::any_of(names.names().begin(), names.names().end(),
                       [&](const FrameName& known) { return known.name == name; });
  }

  std::string said_;
  std::shared_ptr<Console> console_ =
      std::make_shared<Console>([this](std::string_view text) { said_ += text; }, ConsoleTraits{});
  const std::string loop_ =
      "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, dpo)) end\n";
};

TEST_F(PreviewTest, NamesTheLineOfAnEndlessLoop) {
  write_file_atomic("test.lua", "local n = 0\nwhile true do n = n + 1 end\n");
  RecipeOptions options;
  options.recipe = "test.lua";
  const auto session = open_preview(std::move(options), console_, 0.05);
  ASSERT_NE(session->error(), nullptr);
  EXPECT_EQ(session->error()->position(), "test.lua:2");
}

TEST_F(PreviewTest, PausesBeforeTheLoopWithoutWeightsAndLeavesNothing) {
  std::filesystem::path scratch;
  {
    const auto session = open(head() + loop_ + kExport);
    ASSERT_NE(session->pause(), nullptr) << session->no_loop_text();
    EXPECT_EQ(session->pause()->step, 0);
    EXPECT_FALSE(session->session().models.policies().front()->loaded());
    EXPECT_TRUE(knows(*session, "dpo") && knows(*session, "valid") && knows(*session, "cfg"));
    EXPECT_FALSE(knows(*session, "step"));
    EXPECT_EQ(session->names().line(), 17);
    scratch = session->session().folder.scratch->path();
    EXPECT_TRUE(std::filesystem::exists(scratch));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch));
  EXPECT_FALSE(std::filesystem::exists("runs"));
}

// The sum of squares tells batches of rows apart.
TEST_F(PreviewTest, PacksOfAStepHoldTheRowsThatItTrains) {
  const std::string body =
      "for step, batch in run:steps(train, cfg.batch) do "
      "run:log{ rows = ((batch.row + 1) * (batch.row + 1)):sum():item() } end\n";
  ASSERT_EQ(run(head() + body, "r"), "");
  const auto logged = metrics("r");
  const auto session = open(head() + body);
  ASSERT_NE(session->pause(), nullptr);
  for (int64_t step = 0; step < 4; ++step) {
    double sum = 0;
    for (const PackedBatch& pack : session->pause()->loop->packs(step)) {
      for (const int64_t row : pack.row_id) sum += static_cast<double>((row + 1) * (row + 1));
    }
    const Json line = parse_json(logged[static_cast<size_t>(step)], "metrics");
    EXPECT_EQ(line.at("recipe/rows").as_double(), sum) << step;
  }
}

TEST_F(PreviewTest, AStepBeyondTheDataIsNamed) {
  const auto session = open(head() + loop_);
  ASSERT_NE(session->pause(), nullptr);
  EXPECT_EQ(message_of<Error>([&] { session->pause()->loop->packs(4); }),
            "step 4 is beyond the data: this loop has steps 0 to 3");
}

TEST_F(PreviewTest, TheNextBodySeesAssignments) {
  const auto session = open(head() +
                            "local seen = 'nothing'\nfor step, batch in run:steps(train, "
                            "cfg.batch) do seen = seen .. ' ' .. tostring(dpo) end\n");
  ASSERT_NE(session->pause(), nullptr);
  assign(*session, "dpo", "'changed'");
  EXPECT_EQ(value(*session, "dpo"), "changed");
  session->hooks().plan.bodies = 2;
  ASSERT_TRUE(session->resume());
  EXPECT_EQ(session->pause()->step, 2);
  EXPECT_EQ(value(*session, "seen"), "nothing changed changed");
}

TEST_F(PreviewTest, AnObjectiveThatIsAnUpvalueCanBeAssigned) {
  const auto session = open(head() +
                            "local seen\nlocal function train_all()\n for step, batch in "
                            "run:steps(train, cfg.batch) do seen = dpo end\nend\ntrain_all()\n");
  ASSERT_NE(session->pause(), nullptr);
  assign(*session, "dpo", "7");
  session->hooks().plan.bodies = 1;
  ASSERT_TRUE(session->resume());
  EXPECT_EQ(value(*session, "seen"), "7");
}

TEST_F(PreviewTest, RunsToTheEndAndShowsItsNames) {
  const auto session = open(head() + loop_ + "local last = 'here'");
  ASSERT_NE(session->pause(), nullptr);
  EXPECT_FALSE(session->resume());
  EXPECT_EQ(session->error(), nullptr);
  EXPECT_EQ(session->pause(), nullptr);
  EXPECT_EQ(value(*session, "last"), "here");
  EXPECT_TRUE(session->session().models.policies().front()->loaded());
}

TEST_F(PreviewTest, ARecipeWithoutALoopIsReported) {
  const auto session = open(head());
  EXPECT_EQ(session->pause(), nullptr);
  EXPECT_EQ(session->error(), nullptr);
  EXPECT_TRUE(has(session->no_loop_text(), "test.lua:16: the recipe ends without a loop"));
  EXPECT_TRUE(knows(*session, "policy"));
}

TEST_F(PreviewTest, AnErrorKeepsTheNamesDefinedSoFar) {
  const auto session = open(head() + "local answer = 42\nlocal bad = answer.x.y\n" + loop_);
  ASSERT_NE(session->error(), nullptr);
  EXPECT_EQ(session->error()->line, 18);
  EXPECT_EQ(value(*session, "answer"), "42");
  EXPECT_FALSE(knows(*session, "bad"));
  assign(*session, "answer", "43");
  EXPECT_EQ(value(*session, "answer"), "43");
}

TEST_F(PreviewTest, ASyntaxErrorOrABadConfigLeavesAState) {
  const auto syntax = open("local x = = 1\n");
  ASSERT_NE(syntax->error(), nullptr);
  EXPECT_TRUE(has(syntax->error()->text(), "test.lua:1"));
  EXPECT_TRUE(syntax->names().empty());
  const auto config = open(head() + loop_, {"betta=1"});
  ASSERT_NE(config->error(), nullptr);
  EXPECT_TRUE(config->error()->usage);
}

TEST_F(PreviewTest, ALoopThatEndsWithItsHeadIsASyntaxError) {
  const auto session = open(head() + "for step, batch in run:steps(train, cfg.batch)\n");
  ASSERT_NE(session->error(), nullptr);
  EXPECT_TRUE(has(session->error()->text(), "'do' expected near '<eof>'"));
}

TEST_F(PreviewTest, WithoutARecipeThereIsABareState) {
  const auto session = open_preview({}, console_);
  EXPECT_EQ(session->error(), nullptr);
  EXPECT_EQ(session->pause(), nullptr);
}

TEST_F(PreviewTest, TheNextLoopIsReachedWithoutTheBodiesOfTheFirst) {
  const auto session = open(two_phases("run:log(adamw:step(batch, later))"));
  ASSERT_NE(session->pause(), nullptr);
  EXPECT_EQ(session->pause()->loop->steps, 3);
  ASSERT_TRUE(session->next_loop());
  EXPECT_EQ(session->pause()->step, 3);
  EXPECT_TRUE(knows(*session, "later"));
  EXPECT_FALSE(session->session().models.policies().front()->loaded());
  EXPECT_EQ(session->pause()->loop->packs(3).empty(), false);
  EXPECT_FALSE(session->next_loop());
}

TEST_F(PreviewTest, ALoopInsideTheRecipesCoroutineIsAnError) {
  const auto session = open(head() + "coroutine.wrap(function()\n" + loop_ + "end)()\n");
  ASSERT_NE(session->error(), nullptr);
  EXPECT_TRUE(has(session->error()->text(), "test.lua:18: "));
  EXPECT_TRUE(has(session->error()->text(), "runs in a coroutine"));
}

}  // namespace
}  // namespace xrun::preview_test
