// A report has every section that the run's files allow, stays small and escapes hostile text.

#include "core/console/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "core/base/file_lock.h"
#include "core/console/report/report_sections.h"
#include "tests/core/console/count_of.h"
#include "tests/scratch_folder.h"

namespace xrun::report_test {
namespace {

constexpr const char* kSectionTitles[] = {"Curves",
                                          "Samples",
                                          "Rollouts",
                                          "Data",
                                          "Rows as they trained",
                                          "Settings",
                                          "Time",
                                          "Memory",
                                          "Environment and hashes"};

MetricSeries series_of(const std::string& name, int64_t steps) {
  MetricSeries series{name, {}, {}};
  for (int64_t i = 0; i < steps; ++i) {
    series.steps.push_back(i);
    series.values.push_back(std::sin(static_cast<double>(i) * 12.9898) * 0.3 + 1);
  }
  return series;
}

RunFiles run_of(const std::string& name, const std::vector<std::string>& metrics, int64_t steps) {
  RunFiles run;
  run.name = name;
  run.record = parse_json(R"({"recipe":"dpo","finished":true,"stopped":"","steps":3,
    "memory":{"planned":{"total":2000000,"weights":500000}},
    "inputs":{"data":{"1":{"digest":"d1","name":"pairs"}}}})",
                          "run.json");
  run.config = parse_json(R"({"beta":0.1,"optim":{"lr":1e-05}})", "config.json");
  run.origins = parse_json(R"({"beta":"--set","optim.lr":"dpo.lua:10"})", "config.json");
  run.recipe = "return 1 < 2\n";
  run.metrics.objects = steps;
  run.metrics.last_step = steps - 1;
  for (const std::string& metric : metrics) run.metrics.series.push_back(series_of(metric, steps));
  return run;
}

bool has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

TEST(Report, HasEverySectionOfARun) {
  const RunFiles run =
      run_of("a", {"train/loss", "valid/loss", "train/margin", "perf/step_s"}, 100);
  const std::string page = report_page({&run, 1});
  for (const char* title : kSectionTitles) {
    EXPECT_TRUE(has(page, std::string("<h2>") + title + "</h2>")) << title;
  }
  EXPECT_TRUE(has(page, "data-name=\"train\""));
  EXPECT_TRUE(has(page, "dashed"));
  EXPECT_TRUE(has(page, "dpo.lua:10"));
  EXPECT_TRUE(has(page, "return 1 &lt; 2"));
  EXPECT_TRUE(has(page, "500 KB"));
  EXPECT_TRUE(has(page, "<code>d1</code>"));
  EXPECT_TRUE(has(page, "id=\"smooth\""));
}

TEST(Report, ShowsTheBestAndWorstAnswersEscaped) {
  RunFiles run = run_of("a", {"rollout/reward", "rollout/pass_at_4", "rollout/length"}, 20);
  run.metrics.series.push_back({"rollout/kl", {0, 1, 2}, {NAN, 2.5, 0.5}});
  RecordedRollouts last{.step = 19};
  for (int i = 0; i < 4; ++i) {
    last.answers.push_back({.row = i,
                            .group = i / 2,
                            .sample = i % 2,
                            .length = 10 + i,
                            .prompt = "what <is> it?",
                            .text = "<b>it is " + std::to_string(i),
                            .finish = i == 0 ? "stop" : "length",
                            .reward = i / 4.0,
                            .advantage = 0.5,
                            .parts = {{"format", 0.125}}});
  }
  run.rollouts = {last};
  const std::string page = report_page({&run, 1});
  for (const char* part :
       {"<h3>highest rewards of step 19</h3>", "<h3>lowest rewards of step 19</h3>", "pass@4",
        "what &lt;is&gt; it?", "&lt;b&gt;it is 3", "format 0.125", "75 %", "step 19",
        "<td>kl</td><td class=\"n\">none</td><td class=\"n\">2.5</td><td class=\"n\">0.5</td>"}) {
    EXPECT_TRUE(has(page, part)) << part;
  }
  EXPECT_FALSE(has(page, "<b>it is"));
  EXPECT_EQ(count_of(page, "it is 3"), 1u) << "best and worst share no answer";
  EXPECT_LT(page.find("it is 3"), page.find("it is 0"));
}

// The two sides of a pair share a chart of one run, and have one each of several.
TEST(Report, SeveralRunsShareTheirCharts) {
  const std::vector<std::string> metrics = {"train/reward_chosen", "train/reward_rejected"};
  const RunFiles runs[] = {run_of("a", metrics, 100), run_of("b", metrics, 100)};
  const std::string both = report_page(runs);
  EXPECT_EQ(count_of(both, "<b>reward_chosen</b>"), 2u) << "curves and histogram";
  EXPECT_EQ(count_of(both, "class=\"line run-1\" data-name"), 2u);
  EXPECT_TRUE(has(both, "data-group=\"run-1\""));
  const std::string one = report_page({runs, 1});
  EXPECT_EQ(count_of(one, "<b>reward</b>"), 2u);
  EXPECT_FALSE(has(one, "data-group=\"run"));
}

TEST(Report, EachKindOfLossHasItsOwnChart) {
  RunFiles runs[] = {run_of("a", {"train/loss", "train/grad_norm"}, 5),
                     run_of("b", {"train/loss", "train/grad_norm"}, 5),
                     run_of("c", {"train/loss", "train/loss/chats"}, 5)};
  runs[0].record.set("recipe", "recipes/dpo.lua");
  runs[1].record.set("recipe", "mine/dpo.lua");
  runs[2].record.set("recipe", "sft.lua");
  const std::string page = report_curves(runs);
  EXPECT_FALSE(has(page, "<b>loss</b>"));
  for (const char* title : {"loss of dpo.lua", "loss of sft.lua", "loss by source of sft.lua"}) {
    EXPECT_TRUE(has(page, "<b>" + std::string(title) + "</b>")) << title;
  }
  EXPECT_EQ(count_of(page, "<b>grad_norm</b>"), 1u) << "only losses are drawn apart";
  EXPECT_TRUE(has(report_curves({runs, 2}), "<b>loss</b>")) << "one recipe has one kind of loss";

  for (RunFiles& run : runs) run.record.set("recipe", "pair_losses.lua");
  runs[0].config.set("loss", "ipo");
  runs[1].config.set("loss", "hinge");
  EXPECT_TRUE(has(report_curves({runs, 2}), "<b>loss of pair_losses.lua hinge</b>"));
}

TEST(Report, TheSourcesOfAMixtureShareAChart) {
  const RunFiles run = run_of("a",
                              {"train/loss", "train/loss/chats", "train/loss/code", "valid/loss",
                               "valid/loss/chats", "valid/mt/loss"},
                              100);
  const std::string page = report_page({&run, 1});
  EXPECT_TRUE(has(page, "<b>loss by source</b>"));
  EXPECT_TRUE(has(page, "data-name=\"train chats\""));
  EXPECT_TRUE(has(page, "data-name=\"valid chats\""));
  EXPECT_TRUE(has(page, "data-name=\"valid mt\""));
}

TEST(Report, SettingsThatDifferAreMarked) {
  RunFiles runs[] = {run_of("a", {"x"}, 2), run_of("b", {"x"}, 2)};
  runs[1].config.set("beta", 0.2);
  const std::string page = report_page(runs);
  EXPECT_EQ(count_of(page, "<tr class=\"differs\">"), 1u);
  EXPECT_EQ(count_of(page, "<tr class=\"same\">"), 1u);
  EXPECT_TRUE(has(page, "recipe.lua of b: identical"));
}

TEST(Report, EpochsThatStepsReplaceAreMarked) {
  RunFiles run;
  run.config = parse_json(R"({"epochs":1,"steps":16})", "config");
  run.origins = parse_json(R"({"epochs":"default","steps":"--set"})", "origins");
  const std::string used = "default, not used: steps decides";
  EXPECT_NE(report_settings({&run, 1}).find(used), std::string::npos);
  run.config = parse_json(R"({"epochs":1})", "config");
  EXPECT_EQ(report_settings({&run, 1}).find(used), std::string::npos);
}

TEST(Report, SamplesAreGroupedByStep) {
  RunFiles run = run_of("a", {"x"}, 2);
  const auto answer = [](const char* text) {
    return Json(Json::Object{{"row", 7}, {"prompt", "ask"}, {"text", text}});
  };
  run.samples = {{0, {answer("before")}}, {16, {answer("<after>\n \n")}}};
  run.samples_left_out = 1;
  const std::string page = report_page({&run, 1});
  EXPECT_TRUE(has(page, "<th>step 0</th><th>step 16</th>"));
  EXPECT_TRUE(has(page, "before"));
  EXPECT_TRUE(has(page, "the run's folder has the answers of 1 more step<"));
  EXPECT_TRUE(has(page, "&lt;after&gt;<span class=\"dim\">⏎·⏎</span>"));
}

TEST(Report, SamplesCountThePromptsThatAreNotShown) {
  RunFiles run = run_of("a", {"x"}, 2);
  run.samples = {{0, {}}, {16, {}}};
  for (int row = 0; row < 10; ++row) {
    for (auto& step : run.samples) step.answers.push_back(Json(Json::Object{{"row", row}}));
  }
  EXPECT_TRUE(
      has(report_samples({&run, 1}), "the run's folder has the answers to 2 more prompts<"));
  for (auto& step : run.samples) step.answers.resize(8);
  EXPECT_FALSE(has(report_samples({&run, 1}), "more prompt"));
}

TEST(Report, RowsShowWhatIsTrained) {
  RunFiles runs[] = {run_of("a", {"x"}, 2), run_of("b", {"x"}, 2)};
  const SourceSample source = {"pairs",
                               {"chosen", "rejected"},
                               {{"pairs.jsonl:17", {{{"ask", false}, {"yes", true}}, {}}}},
                               {{3, 4, 5}, {6, 7, 8}},
                               "its cache is short"};
  runs[0].sources = runs[1].sources = {source};
  const std::string page = report_page(runs);
  EXPECT_TRUE(has(page, "pairs.jsonl:17: chosen, rejected"));
  EXPECT_TRUE(has(page, "<span class=\"dim\">ask</span><b class=\"trained\">yes</b>"));
  EXPECT_TRUE(has(page, "<b>pairs</b>: its cache is short"));
  EXPECT_EQ(count_of(page, "<b>tokens per row</b>"), 1u) << "the second run read the same data";
  EXPECT_TRUE(has(page, "the same as for a run above"));
}

TEST(Report, AProfileGivesTimeByLine) {
  RunFiles run = run_of("a", {"x"}, 2);
  run.profile = parse_json(R"({"seconds":2,"lines":[{"file":"dpo.lua","line":24,"text":"x < y",
    "calls":3,"own_s":1.5,"total_s":1.5,"allocated_bytes":4000000,"kept_bytes":0}]})",
                           "profile.json");
  const std::string page = report_page({&run, 1});
  EXPECT_TRUE(has(page, "dpo.lua:24"));
  EXPECT_TRUE(has(page, "x &lt; y"));
  EXPECT_TRUE(has(page, "1.500 s"));
  EXPECT_TRUE(has(page, "width:75.0%"));
}

TEST(Report, ALongProfileCountsTheLinesThatAreNotShown) {
  RunFiles run = run_of("a", {"x"}, 2);
  Json::Array lines(502, Json(Json::Object{{"own_s", 0.5}}));
  run.profile = Json(Json::Object{{"seconds", 300}, {"lines", Json(std::move(lines))}});
  const std::string html = report_time({&run, 1});
  EXPECT_TRUE(has(html, "profile.json has 2 more lines<"));
  EXPECT_TRUE(has(html, ">251.000 s of 300.000 s in calls of the engine"));
}

TEST(Report, ReportsWhatAnEmptyRunLacks) {
  RunFiles run;
  run.name = "gone";
  run.record = run.config = run.origins = Json::object();
  run.notices = {"metrics.jsonl is missing: nothing was logged"};
  const std::string page = report_page({&run, 1});
  for (const char* text :
       {"metrics.jsonl is missing: nothing was logged", "no metric was logged",
        "the recipe sampled no answers", "the run has no ledger.json", "run.json names no data",
        "no settings: config.json could not be read", "no profile.json", "run.json has no memory",
        "not finished: killed or still running"}) {
    EXPECT_TRUE(has(page, text)) << text;
  }
}

TEST(Report, ReportsThatStepsEndedTheRun) {
  RunFiles run;
  run.record =
      parse_json(R"({"finished":false,"stopped":"","steps":2,"steps_limit":2})", "run.json");
  EXPECT_EQ(run_state_text(run), "stopped after 2 steps by --steps");
  run.record.set("steps_limit", Json());  // resumed since
  EXPECT_EQ(run_state_text(run), "not finished: killed or still running");
  run.record.set("steps_limit", "two");
  EXPECT_EQ(run_state_text(run), "not finished: killed or still running");
}

TEST(Report, TheLockTellsIfARunIsRunning) {
  const ScratchFolder folder;
  RunFiles run;
  run.record = parse_json(R"({"finished":false,"stopped":"","steps":2})", "run.json");
  run.dir = folder.path();
  EXPECT_EQ(run_state_text(run), "not finished: killed or still running");
  std::optional<FileLock> lock(std::in_place, folder.path() / "lock", false);
  EXPECT_EQ(run_state_text(run), "running");
  lock.reset();
  EXPECT_EQ(run_state_text(run), "not finished: killed");
}

TEST(Report, PromptColumnsOfOlderRunsAreRead) {
  for (const char* key : {"extra", "kept"}) {
    RunFiles run = run_of("a", {"train/loss"}, 3);
    const Json columns(Json::Object{{"prompt", "the column"}});
    run.samples = {
        {0,
         {Json(Json::Object{{"row", 0}, {"prompt", "rendered"}, {"text", "t"}, {key, columns}})}}};
    const std::string page = report_page({&run, 1});
    EXPECT_TRUE(has(page, "the column") && !has(page, "rendered")) << key;
  }
}

TEST(Report, HostileNamesAndValuesStayText) {
  const std::string evil = "</script><script>alert(1)</script>\x1b[2J\xff\u202E";
  RunFiles run = run_of(evil, {"train/" + evil, evil}, 20);
  run.record = Json(Json::Object{{"recipe", evil},
                                 {"stopped", evil},
                                 {"memory", Json(Json::Object{{"planned", evil}})},
                                 {"inputs", Json(Json::Object{{"data", evil}})},
                                 {evil, evil}});
  run.config = run.origins = Json(Json::Object{{evil, evil}});
  run.ledger = Json(Json::Object{{"sources", evil}});
  run.profile = Json(Json::Object{{"lines", Json(Json::Array{Json(evil)})}, {"seconds", evil}});
  run.samples = {{0, {Json(Json::Object{{"row", evil}, {"text", evil}, {"extra", evil}})}}};
  run.notices = {evil};
  run.sources = {{evil, {evil}, {{evil, {{{evil, true}, {evil, false}}}}}, {{1, 2}}, evil}};
  run.recipe = evil;
  const RunFiles both[] = {run, run};
  for (const std::string& page : {report_page({&run, 1}), report_page(both)}) {
    EXPECT_FALSE(has(page, "<script>"));
    EXPECT_EQ(count_of(page, "</script>"), 1u);
    EXPECT_FALSE(has(page, "\x1b"));
    EXPECT_FALSE(has(page, "\xff"));
    EXPECT_FALSE(has(page, "\u202E"));
  }
}

TEST(Report, NonFiniteValuesStillGiveAPage) {
  RunFiles run = run_of("a", {}, 3);
  constexpr double kMost = std::numeric_limits<double>::max();
  run.metrics.series = {{"nan", {0, 1, 2}, {NAN, NAN, NAN}},
                        {"huge", {0, 1, 2}, {-kMost, kMost, 0}},
                        {"late", {INT64_MAX - 1, INT64_MAX}, {1, 2}},
                        {"tiny", {0, 1}, {5e-324, 1e-310}}};
  EXPECT_TRUE(has(report_page({&run, 1}), "no finite value was logged"));
}

TEST(Report, AHundredThousandStepsTakeSomeKilobytesAMetric) {
  const RunFiles run = run_of("long", {"train/loss", "train/margin", "perf/step_s"}, 100000);
  EXPECT_LT(report_page({&run, 1}).size(), 60000u);
}

TEST(Report, ManyRunsAndMetricsStayUnderThreeMegabytes) {
  std::vector<std::string> metrics;
  for (int i = 0; i < 100; ++i) metrics.push_back("train/m" + std::to_string(i));
  const std::vector<RunFiles> runs(12, run_of("one", metrics, 500));
  const std::string page = report_page(runs);
  EXPECT_LT(page.size(), 3000000u);
  EXPECT_TRUE(has(page, "240 more metrics are not drawn")) << "20 names beyond 80 charts, 12 runs";
}

}  // namespace
}  // namespace xrun::report_test
