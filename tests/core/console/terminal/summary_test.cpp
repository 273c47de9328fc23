// The opening and closing reports name results, folders and the command that continues the run.

#include "core/console/terminal/summary.h"

#include <gtest/gtest.h>

#include "core/base/file_access.h"
#include "core/run/record/run_summary.h"
#include "tests/scoped_variable.h"

namespace xrun::summary_test {
namespace {

const Console& plain() {
  static const Console console([](std::string_view) {}, {false, ColorDepth::kNone, 80});
  return console;
}

TEST(ClosingSummary, ReportsResultsAndTheirFolders) {
  RunSummary summary;
  summary.dir = "runs/dpo-1a2b3c4d";
  summary.exported = {{"runs/dpo-1a2b3c4d/best", "bfloat16"}, {"runs/dpo-1a2b3c4d/hf", "bfloat16"}};
  summary.steps = summary.total_steps = 34;
  summary.seconds = 100;
  summary.tokens = 124000;
  summary.peak_rss_mb = 2000;
  summary.last_train = parse_json(R"({"step":33,"train/loss":0.1,"train/accuracy":1.0})", "t");
  summary.last_valid = parse_json(
      R"({"step":34,"valid/loss":0.2,"valid/accuracy":0.96,"valid/other/loss":3.5})", "v");
  summary.scores = {{"reward", 0, 33, 0.125, 0.61}, {"score", 34, 34, 0.7, 0.7}};
  EXPECT_EQ(closing_summary(summary, plain()),
            "steps        34\n"
            "train        loss 0.1000, accuracy 1.0000\n"
            "reward       0.1250 at step 0, 0.6100 at step 33\n"
            "score        0.7000 at step 34\n"
            "valid        loss 0.2000, accuracy 0.9600\n"
            "valid/other  loss 3.5000\n"
            "time         1m 40s, 1,240 tokens/s overall\n"
            "peak memory  2.1 GB\n"
            "run          runs/dpo-1a2b3c4d\n"
            "best         runs/dpo-1a2b3c4d/best (bfloat16)\n"
            "model        runs/dpo-1a2b3c4d/hf (bfloat16)\n");
}

TEST(ClosingSummary, AnEvaluationOfAnEarlierStepSaysSo) {
  RunSummary summary;
  summary.steps = summary.total_steps = 12;
  summary.last_valid = parse_json(R"({"step":8,"valid/loss":0.2})", "v");
  EXPECT_NE(closing_summary(summary, plain()).find("valid        loss 0.2000 (step 8)\n"),
            std::string::npos);
}

TEST(ClosingSummary, HasTheCommandThatContinuesARunEndedBySteps) {
  RunSummary summary;
  summary.recipe = "dpo.lua";
  summary.dir = "r";
  summary.steps = 5;
  summary.first_step = 2;
  summary.total_steps = 34;
  summary.stopped = "--steps 5";
  summary.nonfinite = {{"train/kl", 2}, {"valid/loss", 1}};
  EXPECT_EQ(closing_summary(summary, plain()),
            "steps        5 of 34 (resumed at step 2)\n"
            "stopped      --steps 5\n"
            "time         0s since the resume\n"
            "peak memory  0 bytes\n"
            "not finite   2 of train/kl, 1 of valid/loss: null in metrics.jsonl\n"
            "run          r\n"
            "to continue  xrun dpo.lua --run r --resume\n");
}

TEST(ClosingSummary, CommandsAndPathsStayWholeOnANarrowTerminal) {
  const Console narrow([](std::string_view) {}, {true, ColorDepth::kNone, 40});
  RunSummary summary;
  summary.recipe = "recipes/dpo.lua";
  summary.dir = "runs/my first run of many";
  summary.exported = {{"runs/a-folder-whose-name-is-wide/hf", "bfloat16"}};
  summary.total_steps = 34;
  summary.stopped = "--steps 0";
  const std::string text = closing_summary(summary, narrow);
  for (const char* line :
       {"run          runs/my first run of many\n",
        "model        runs/a-folder-whose-name-is-wide/hf\n",
        "to continue  xrun recipes/dpo.lua --run 'runs/my first run of many' --resume\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST(ClosingSummary, ARunWhoseLoopNeverUpdatesSaysSo) {
  RunSummary summary;
  summary.steps = summary.total_steps = 4;
  summary.never_updated = true;
  EXPECT_NE(
      closing_summary(summary, plain())
          .find("note         no step updated the weights: the loop never calls adamw:step\n"),
      std::string::npos);
}

// Names of files, of sets and of metrics are foreign.
TEST(Summaries, ForeignTextCannotActOnTheTerminal) {
  const std::string foreign = "\x1b]0;x\x07";
  OpeningReport report;
  report.recipe = report.model = report.output = report.ledger = foreign;
  report.facts = {{foreign, foreign}};
  report.notices = {foreign};
  RunSummary summary;
  summary.dir = foreign;
  summary.exported = {{foreign, foreign}};
  summary.stopped = foreign;
  summary.nonfinite = {{foreign, 1}};
  summary.last_valid.set("valid/" + foreign + "/loss", 0.5);
  for (const std::string& text :
       {opening_report(report, plain()), closing_summary(summary, plain())}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_EQ(text.find('\x07'), std::string::npos) << text;
    EXPECT_NE(text.find("<1B>]0;x<07>"), std::string::npos) << text;
  }
}

TEST(Summaries, ANameOfAMetricBeginsNoLine) {
  RunSummary summary;
  summary.nonfinite = {{"a\nxrun: error: x", 1}};
  summary.last_valid.set("valid/b\nxrun: error: x/loss", 0.5);
  const std::string text = closing_summary(summary, plain());
  EXPECT_EQ(text.find("\nxrun: error"), std::string::npos) << text;
  EXPECT_NE(text.find("a⏎xrun: error: x"), std::string::npos) << text;
}

TEST(OpeningReport, BreaksProseAtBlanksOnATerminal) {
  const Console narrow([](std::string_view) {}, {true, ColorDepth::kNone, 40});
  OpeningReport report;
  report.recipe = "dpo.lua";
  report.facts = {{"memory", "3.3 GB: optimizer 1.1 GB, activations 957 MB"}};
  report.output = "runs/a-folder-whose-name-is-wider-than-the-line";
  report.notices = {"template: the tokenizer's own has no generation marks"};
  EXPECT_EQ(opening_report(report, narrow),
            "recipe  dpo.lua\n"
            "memory  3.3 GB: optimizer 1.1 GB,\n"
            "        activations 957 MB\n"
            "output  runs/a-folder-whose-name-is-wider-than-the-line\n"
            "template: the tokenizer's own has no\n"
            "generation marks\n");
}

TEST(OpeningReport, OmitsUnknownFacts) {
  OpeningReport report;
  report.recipe = "recipes/dpo.lua";
  report.ledger = "source  rows\na.jsonl  300\n";
  report.parameters = 134515008;
  report.trainable = 134515008;
  report.facts = {{"loss", "one per pair"}};
  report.output = "runs/dpo-1a2b3c4d";
  report.notices = {"template: tagged:smollm2"};
  EXPECT_EQ(opening_report(report, plain()),
            "source  rows\na.jsonl  300\n"
            "recipe      recipes/dpo.lua\n"
            "parameters  134,515,008, 134,515,008 trainable\n"
            "loss        one per pair\n"
            "output      runs/dpo-1a2b3c4d\n"
            "template: tagged:smollm2\n");
}

TEST(Summary, AFilesConsoleHasNoColours) {
  const Console terminal([](std::string_view) {}, {true, ColorDepth::k256, 70});
  const Console file = console_of_file(terminal);
  EXPECT_NE(terminal.bold("x"), "x");
  EXPECT_EQ(file.bold("x"), "x");
  EXPECT_EQ(file.traits().width, 70);
  EXPECT_FALSE(file.traits().terminal);
}

TEST(Summary, AResumeOfATrustedBundleIsTrustedAgain) {
  EXPECT_TRUE(resume_command("r.lua", "runs/a").ends_with(" r.lua --run runs/a --resume"));
  EXPECT_TRUE(
      resume_command("r.xrb", "runs/a").ends_with(" r.xrb --run runs/a --resume --trusted"));
  set_named_paths({"my data"});
  EXPECT_TRUE(resume_command("r.xrb", "runs/a").ends_with(" --trusted --read 'my data'"));
  EXPECT_TRUE(resume_command("r.lua", "runs/a").ends_with(" --resume"));
  set_named_paths({});
}

TEST(Summary, AResumeOfALaunchedRunIsLaunchedAgain) {
  const ScopedVariable launched("XRUN_LAUNCHED_AS", "launch -n 2");
  EXPECT_TRUE(resume_command("my recipe.lua", "runs/a")
                  .ends_with(" launch -n 2 'my recipe.lua' --run runs/a --resume"));
}

TEST(Summary, AStoppingStepSaysHowLongItMayTake) {
  EXPECT_EQ(stopping_line(1.9),
            "stopping after this step; another Ctrl-C stops at once, without saving");
  EXPECT_EQ(stopping_line(19.2),
            "stopping after this step, in up to 20s; another Ctrl-C stops at once, without saving");
}

}  // namespace
}  // namespace xrun::summary_test
