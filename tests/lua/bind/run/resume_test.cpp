// --resume: the settings of the run, those that may change, the folder that it finds.

#include "lua/bind/run/resumed_options.h"
#include "tests/error_of.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::resume_test {

class Resume : public SessionTest {
 protected:
  static std::string recipe() {
    return head() +
           "for step, batch in run:steps(train, cfg.batch) do\n"
           "  run:log(adamw:step(batch, dpo))\nend\n" +
           kExport;
  }
};

TEST_F(Resume, TakesTheSettingsFromTheRun) {
  const std::vector<std::string> sets = {"beta=0.3", "optim.betas={0.8, 0.99}", "save.every=1"};
  ASSERT_EQ(run(recipe(), "whole", {.sets = sets}), "");
  ASSERT_EQ(run(recipe(), "r", {.steps = 2, .sets = sets}), "");
  has(output_, "to continue  xrun test.lua --run r --resume");
  ASSERT_EQ(run(recipe(), "r", {.resume = true, .steps = 3, .sets = {"save.every=2"}}), "");
  has(output_, "config.save.every: 1 -> 2");
  has(run(recipe(), "r", {.resume = true, .sets = {"beta=0.5"}}), "config.beta: 0.3 -> 0.5");
  ASSERT_EQ(run(recipe(), "r", {.resume = true}), "");
  EXPECT_EQ(metrics("r"), metrics("whole"));
  EXPECT_EQ(read_file("r/hf/model.safetensors"), read_file("whole/hf/model.safetensors"));
  EXPECT_EQ(read_json("r/config.json").at("config").at("save").at("every").as_int(), 2);
}

TEST_F(Resume, SlowTakesTheThreadsOfTheRun) {
  ASSERT_EQ(run(recipe(), "whole", {.threads = 2}), "");
  ASSERT_EQ(run(recipe(), "r", {.steps = 2, .threads = 2}), "");
  at::set_num_threads(1);  // as in a new process without --threads
  ASSERT_EQ(run(recipe(), "r", {.resume = true, .threads = 0}), "");
  EXPECT_EQ(read_json("r/run.json").at("machine").at("threads").as_int(), 2);
  EXPECT_EQ(output_.find("machine.threads"), std::string::npos) << output_;
  EXPECT_EQ(metrics("r"), metrics("whole"));
  at::set_num_threads(1);
}

TEST_F(Resume, ARunWithMoreThreadsThanTheMachineIsReported) {
  ASSERT_EQ(run(recipe(), "r", {.steps = 2}), "");
  Json record = read_json("r/run.json");
  record.find("machine")->set("threads", 1000);
  write_file_atomic("r/run.json", dump_json(record));
  RecipeOptions options;
  options.recipe = "test.lua";
  options.run_dir = "r";
  options.resume = true;
  options = resumed_options(options);
  EXPECT_EQ(options.threads, 1000);
  ASSERT_EQ(options.notices.size(), 1u);
  has(options.notices[0], "the run computes with 1000 threads, and this machine runs ");
  options.threads = 1;  // given by --threads
  EXPECT_EQ(resumed_options(options).threads, 1);
}

TEST_F(Resume, TakesTheDeviceOfTheRun) {
  ASSERT_EQ(run(recipe(), "r", {.steps = 2}), "");
  Json record = read_json("r/run.json");
  record.find("machine")->set("device", "cuda");
  write_file_atomic("r/run.json", dump_json(record));
  RecipeOptions options;
  options.recipe = "test.lua";
  options.run_dir = "r";
  options.resume = true;
  EXPECT_EQ(resumed_options(options).device, "cuda");
  options.device_given = true;
  EXPECT_EQ(resumed_options(options).device, "cpu");
}

TEST_F(Resume, AKeyThatTheRecipeHasLostNeedsForce) {
  std::string text = recipe();
  const std::string key = ", beta = 0.1";
  ASSERT_EQ(run(text, "r", {.steps = 2, .sets = {"beta=0.3", "save.every=1"}}), "");
  text.replace(text.find(key), key.size(), "");
  const std::string read = "cfg.beta";
  text.replace(text.find(read), read.size(), "0.3");
  const std::string error = run(text, "r", {.resume = true});
  has(error,
      "r: cannot resume: the run began with a setting that the recipe no longer takes: --set "
      "beta=0.3: there is no key `beta`");
  has(error, "add --force to resume without the setting");
  ASSERT_EQ(run(text, "r", {.resume = true, .force = true}), "");
  has(output_,
      "resuming by --force: a setting of the run is left out, since the recipe no longer takes "
      "it: --set beta=0.3");
  EXPECT_EQ(metrics("r").size(), 4u);
  EXPECT_EQ(read_json("r/config.json").at("sets").size(), 1u);
}

TEST_F(Resume, AnotherRecipeIsRefusedWithTheNameOfTheRuns) {
  ASSERT_EQ(run(recipe(), "r", {.steps = 2, .sets = {"beta=0.3"}}), "");
  const auto resumed = [](const std::string& text, bool force = false) {
    write_file_atomic("other.lua", text);
    RecipeOptions options;
    options.recipe = "other.lua";
    options.run_dir = "r";
    options.resume = true;
    options.force = force;
    return resumed_options(options);
  };
  EXPECT_EQ(
      error_of([&] { resumed("local xrun = require 'xrun'\nxrun.config { alpha = 1 }\n"); }),
      "r: cannot resume: it is a run of test.lua (its text is r/recipe.lua), and other.lua is "
      "another recipe\nname its own recipe to resume it; to start a new run, choose another "
      "folder with --run DIR");
  EXPECT_EQ(resumed(recipe()).notices.size(), 0u);  // a copy under another name
  const RecipeOptions forced = resumed(recipe() + "-- edited\n", true);
  ASSERT_EQ(forced.notices.size(), 1u);
  has(forced.notices[0], "resuming by --force: it is a run of test.lua");
}

TEST_F(Resume, TheTypeOfTheExportMayChange) {
  ASSERT_EQ(run(recipe(), "r", {.steps = 2}), "");
  ASSERT_EQ(run(recipe(), "r", {.resume = true, .sets = {"export.dtype=bf16"}}), "");
  has(output_, "config.export.dtype: absent -> \"bf16\"");
}

TEST_F(Resume, AFinishedRunIsExportedAgainInAnotherType) {
  ASSERT_EQ(run(recipe(), "r"), "");
  const std::vector<std::string> trained = metrics("r");
  ASSERT_EQ(run(recipe(), "r", {.resume = true, .sets = {"export.dtype=bf16"}}), "");
  has(output_, "r is finished: nothing is trained, but what follows its last loop is done again");
  EXPECT_EQ(read_json("r/hf/config.json").at("torch_dtype").as_string(), "bfloat16");
  EXPECT_EQ(metrics("r"), trained);
  ASSERT_EQ(run(recipe(), "r", {.resume = true, .sets = {"export.dtype=bf16"}}), "");
  has(output_, "is finished, so there is nothing to resume");
  has(output_, "to export it in another type: --resume --set export.dtype=bf16");

  std::filesystem::remove_all("r/checkpoints");
  has(run(recipe(), "r", {.resume = true, .sets = {"export.dtype=fp32"}}),
      "r: the finished run cannot be exported in another type, since the checkpoint of its last "
      "step, step_0000004, is missing");
  EXPECT_EQ(read_json("r/hf/config.json").at("torch_dtype").as_string(), "bfloat16");
}

TEST_F(Resume, WithoutAFolderFindsTheNewestRunOfTheRecipe) {
  ASSERT_EQ(run(recipe(), "", {.steps = 2, .sets = {"beta=0.3"}}), "");
  ASSERT_EQ(run(recipe(), "", {.resume = true}), "");
  has(output_, "at step 2");
  ASSERT_EQ(run(recipe(), "", {.resume = true}), "");
  has(output_, "is finished, so there is nothing to resume");
}

TEST_F(Resume, AFolderWithoutARunIsAnError) {
  has(run(recipe(), "", {.resume = true}), "there is no run of test in runs/");
  RecipeOptions options;
  options.recipe = "test.lua";
  options.run_dir = "r";
  options.resume = true;
  try {
    run_session(resumed_options(options));
    ADD_FAILURE() << "a run was started";
  } catch (const UsageError& error) {
    has(error.what(), "r: this folder does not exist; wanted the folder of a run");
  }
  EXPECT_FALSE(std::filesystem::exists("r"));
}

TEST_F(Resume, MoreStepsPassAndTheNewScheduleIsReported) {
  ASSERT_EQ(run(recipe(), "r"), "");
  ASSERT_EQ(run(recipe(), "r", {.resume = true, .sets = {"steps=6"}}), "");
  has(output_,
      "the run has 6 steps now and had 4; its learning rate follows the schedule of 6 steps: "
      "0.000333 at step 4, 0 on the old schedule");
  has(read_file("r/log.txt"), "resumed r at step 4");
  const std::string metrics = read_file("r/metrics.jsonl");
  // --force would not help, so the message does not offer it.
  for (const bool force : {false, true}) {
    has(run(recipe(), "r", {.resume = true, .sets = {"steps=3"}, .force = force}),
        "r: 6 steps are saved, so 3 steps would train nothing; give at least 6, or choose another "
        "folder with --run DIR");
  }
  EXPECT_EQ(read_file("r/metrics.jsonl"), metrics);
}

TEST_F(Resume, ALaterChangeOfTheLearningRateIsReported) {
  const std::vector<std::string> sets = {"optim.schedule=linear", "optim.warmup=2"};
  ASSERT_EQ(run(recipe(), "r", {.steps = 1, .sets = sets}), "");
  ASSERT_EQ(run(recipe(), "r", {.resume = true, .steps = 2, .sets = {"steps=6"}}), "");
  has(output_, "at step 3, ");  // in the warmup both schedules are the same
  EXPECT_EQ(output_.find("does not change"), std::string::npos) << output_;
  ASSERT_EQ(run(recipe(), "c", {.steps = 1, .sets = {"optim.schedule=constant"}}), "");
  ASSERT_EQ(run(recipe(), "c", {.resume = true, .steps = 2, .sets = {"steps=6"}}), "");
  has(output_, "the run has 6 steps now and had 4; the learning rate does not change");
}

// The recipe is not at fault, so none of its lines is shown.
TEST_F(Resume, AnErrorOfTheFolderShowsNoLineOfTheRecipe) {
  ASSERT_EQ(run(recipe(), "r"), "");
  EXPECT_EQ(run(recipe(), "r"),
            "r: this folder holds a finished run; xrun report r shows it, --resume --set steps=N "
            "trains it further, --run DIR trains in another folder");
  const std::string refused = run(recipe(), "r", {.resume = true, .sets = {"steps=3"}});
  EXPECT_TRUE(refused.starts_with("r: 4 steps are saved, so 3 steps would train nothing"))
      << refused;
  EXPECT_EQ(refused.find("test.lua"), std::string::npos) << refused;
}

// A kill loses the steps since the last save; --steps may end a resume before it has repeated them.
TEST_F(Resume, StepsThatAreRepeatedAndCutAreCounted) {
  ASSERT_EQ(run(recipe(), "r", {.steps = 1}), "");
  write_file_atomic("r/metrics.jsonl",
                    read_file("r/metrics.jsonl") + "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  std::filesystem::copy("r", "none", std::filesystem::copy_options::recursive);
  std::filesystem::copy("r", "some", std::filesystem::copy_options::recursive);
  const std::string steps = "3 steps were logged after the last save";
  ASSERT_EQ(run(recipe(), "none", {.resume = true, .steps = 1}), "");
  has(output_,
      steps + "; this resume does not repeat them and cuts their lines from metrics.jsonl\n");
  EXPECT_EQ(metrics("none").size(), 1u);
  ASSERT_EQ(run(recipe(), "some", {.resume = true, .steps = 2}), "");
  has(output_, steps +
                   "; this resume repeats 1 of them and cuts the lines of the other 2 from "
                   "metrics.jsonl\n");
  EXPECT_EQ(metrics("some").size(), 2u);
  ASSERT_EQ(run(recipe(), "r", {.resume = true}), "");
  has(output_, steps + " and are repeated\n");
  ASSERT_EQ(run(recipe(), "r", {.resume = true}), "");
  EXPECT_EQ(output_.find("logged after"), std::string::npos) << output_;
}

TEST_F(Resume, StepsBeyondAShorterEndAreCut) {
  ASSERT_EQ(run(recipe(), "r", {.steps = 1}), "");
  write_file_atomic("r/metrics.jsonl",
                    read_file("r/metrics.jsonl") + "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  ASSERT_EQ(run(recipe(), "r", {.resume = true, .sets = {"steps=2"}, .force = true}), "");
  has(output_, "this resume repeats 1 of them and cuts the lines of the other 2");
  EXPECT_EQ(metrics("r").size(), 2u);
}

// An evaluation after the loop has the number of the next step, which was not taken.
TEST_F(Resume, AnEvaluationAtTheEndOfStepsIsNotARepeatedStep) {
  const std::string evaluates = head() +
                                "for step, batch in run:steps(train, cfg.batch) do\n"
                                "  run:log(adamw:step(batch, dpo))\nend\n"
                                "run:log(run:evaluate(train, dpo))\n";
  ASSERT_EQ(run(evaluates, "r", {.steps = 2}), "");
  ASSERT_EQ(run(evaluates, "r", {.resume = true, .steps = 3}), "");
  EXPECT_EQ(output_.find("logged after the last save"), std::string::npos) << output_;
}

TEST_F(Resume, WithoutACheckpointTheLoggedStepsAreKept) {
  const std::string failing = head() +
                              "for step, batch in run:steps(train, cfg.batch) do\n"
                              "  run:log(adamw:step(batch, dpo))\nend\n";
  ASSERT_EQ(run(failing, "r"), "");
  std::filesystem::remove_all("r/checkpoints");
  Json record = read_json("r/run.json");
  record.set("finished", false);
  write_file_atomic("r/run.json", dump_json(record));
  const std::string logged = read_file("r/metrics.jsonl");
  has(run(failing, "r"), "r: this folder already holds a run; add --resume to continue it");
  ASSERT_EQ(run(failing, "r", {.resume = true}), "");
  has(output_, "there is no checkpoint, so the run starts from the beginning");
  EXPECT_EQ(read_file("r/metrics.jsonl.1"), logged);
  EXPECT_EQ(metrics("r").size(), 4u);
}

TEST_F(Resume, AnErrorInTheFirstBodySaysThatItIsRepeated) {
  const std::string error = run(head() +
                                    "for step, batch in run:steps(train, cfg.batch) do\n"
                                    "  adamw:step(batch, dpo)\n  error('here')\nend\n",
                                "r");
  has(error, "here");
  has(output_, "only whole steps are saved, so nothing is saved yet");
  EXPECT_FALSE(std::filesystem::exists("r/checkpoints/latest"));
}

TEST_F(Resume, TheLogHasStepsEvaluationsAndSaves) {
  ASSERT_EQ(run(head() + "for step, batch in run:steps(train, cfg.batch) do\n"
                         "  if step == 2 then run:log(run:evaluate(valid, dpo)) end\n"
                         "  run:log(adamw:step(batch, dpo))\nend\n",
                "r"),
            "");
  const std::string log = read_file("r/log.txt");
  has(log, "  step 1/4  loss 0.6931");
  has(log, "  step 2  valid  loss ");
  has(output_, "step 2  valid  loss ");
  has(log, "  step 4/4  loss ");
  has(log, "  saved r/checkpoints/step_0000004");
}

TEST_F(Resume, ASaveByTheClockIsPrinted) {
  ASSERT_EQ(run(recipe(), "r", {.sets = {"save.minutes=0.00001"}}), "");
  has(output_, "saved r/checkpoints/step_0000001");
  has(output_, "saved r/checkpoints/step_0000002");
}

TEST_F(Resume, OfStepsAndEpochsTheOneThatIsSetDecides) {
  ASSERT_EQ(run(recipe(), "r", {.sets = {"epochs=2"}}), "");
  has(output_, "epochs = 2 (--set) decides the length; steps (test.lua:4) is not used");
  has(output_, " steps of 4 = 2 epochs, shuffled");
  has(output_, "  epoch 2/2  ");
  ASSERT_EQ(run(recipe(), "s", {.sets = {"epochs=2", "steps=1"}}), "");
  has(output_, "1 step of 4 = 0.");
  has(output_, "steps = 1 (--set) decides the length; epochs (--set) is not used");
}

TEST_F(Resume, AStepThatRepeatsRowsIsWarnedOf) {
  ASSERT_EQ(run(recipe(), "r", {.sets = {"batch.pairs=100", "steps=1"}}), "");
  has(output_, "warning: a step takes 100 pairs, the data has ");
}

}  // namespace xrun::resume_test
