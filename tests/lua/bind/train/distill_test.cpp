// xrun.frozen and xrun.kd in recipes of one vocabulary: a reference of another folder,
// distillation, and what a run refuses.

#include <cmath>
#include <numbers>
#include <numeric>

#include "core/model/ops/allocator.h"
#include "core/model/ops/scratch.h"
#include "tests/lua/bind/train/distill_fixture.h"

namespace xrun::distill_test {
namespace {

TEST_F(FrozenRuns, AReferenceOfThePolicysFolderTrainsAsItsTwinDoes) {
  copy_model("same");
  ASSERT_EQ(run(dpo_against("policy:reference()"), "twin"), "");
  ASSERT_EQ(run(dpo_against("xrun.frozen(\"same\")"), "foreign"), "");
  EXPECT_EQ(metrics("foreign"), metrics("twin"));
  EXPECT_NEAR(values("foreign", "train/loss").at(0), std::numbers::ln2, 1e-7);
  EXPECT_EQ(values("foreign", "train/margin").at(0), 0);
  EXPECT_EQ(read_file("foreign/hf/model.safetensors"), read_file("twin/hf/model.safetensors"));
}

TEST_F(FrozenRuns, AResumeGivesTheSameBitsAndSavesNothingOfTheModel) {
  copy_model("same");
  const std::string text = dpo_against("xrun.frozen(\"same\")");
  expect_same_when_resumed(text, {2});
  ASSERT_EQ(run(dpo_against("policy:reference()"), "twin"), "");
  const auto saved = [](const std::string& dir) {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
      if (entry.path().extension() == ".safetensors") bytes += entry.file_size();
    }
    return bytes;
  };
  EXPECT_EQ(saved("whole"), saved("twin"));
}

TEST_F(FrozenRuns, AResumeRefusesAModelWhoseFilesChanged) {
  copy_model("same");
  const std::string text = dpo_against("xrun.frozen(\"same\")");
  ASSERT_EQ(run(text, "a", {.steps = 2}), "");
  write_file_atomic("same/config.json", read_file("same/config.json") + "\n");
  has(run(text, "a", {.resume = true}), "the frozen model same has changed since the run began");
}

TEST_F(FrozenRuns, ThePlanCountsItsWeights) {
  copy_model("same");
  ASSERT_EQ(run(dpo_against("xrun.frozen(\"same\")"), "foreign"), "");
  ASSERT_EQ(run(dpo_against("policy:reference()"), "twin"), "");
  EXPECT_GT(planned("foreign", "frozen"), 0);
  EXPECT_EQ(planned("foreign", "frozen"), planned("twin", "reference"));
}

TEST_F(FrozenRuns, OneThatDoesNotFitIsRefusedBeforeItLoads) {
  copy_model("large");
  std::filesystem::resize_file("large/model.safetensors", 100);  // not even read
  Json config = read_json("large/config.json");
  config.set("intermediate_size", int64_t{500'000'000});
  write_file_atomic("large/config.json", dump_json(config));
  setenv("XRUN_MEMORY_MB", "4000", 1);
  const std::string error = run(dpo_against("xrun.frozen(\"large\")"), "a");
  unsetenv("XRUN_MEMORY_MB");
  has(error, "frozen 192 GB");
}

TEST_F(FrozenRuns, TokensOfAnotherVocabularyFailAtTheRecipesLine) {
  make_other();
  const std::string text = dpo_against("xrun.frozen(\"other\")");
  const std::string error = run(text, "a");
  has(error,
      "other cannot read this batch: its tokens are those of tiny, a different vocabulary (");
  has(error, "test.lua:");
  // A dry run, as of `xrun check`, finds it without weights.
  write_file_atomic("test.lua", text);
  std::filesystem::remove("other/model.safetensors");
  RecipeOptions options;
  options.recipe = "test.lua";
  options.threads = 1;
  const auto preview = open_preview(
      std::move(options), std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{}));
  ASSERT_NE(preview->pause(), nullptr);
  for (const auto& input : preview->session().data.inputs) EXPECT_NE(input.kind, "models");
  preview->session().models.stand_in(std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(7)));
  preview->hooks().plan.bodies = 1;
  EXPECT_FALSE(preview->resume());
  ASSERT_NE(preview->error(), nullptr);
  has(preview->error()->message, "other cannot read this batch: its tokens are those of tiny");
}

TEST_F(FrozenRuns, ADryRunReadsNoWeights) {
  copy_model("same");
  std::filesystem::remove("same/model.safetensors");
  EXPECT_EQ(dry_error(dpo_against("xrun.frozen(\"same\")")), "");
}

TEST_F(FrozenRuns, WrongOptionsAreNamed) {
  const auto error_for = [&](const std::string& options) {
    return run("local xrun = require \"xrun\"\nxrun.frozen(\"tiny\", { " + options + " })\n", "");
  };
  has(error_for("cache = \"topp\""), "cache is \"topp\", wanted \"topk\" or \"hidden\"");
  has(error_for("k = 3"),
      "k is the number of columns that cache = \"topk\" stores; leave k out, or set cache");
  has(error_for("cache = \"topk\", k = 0"), "k is 0, wanted at least 1");
  has(error_for("tokeniser = \"tiny\""), "tokenizer");
  has(run("local xrun = require \"xrun\"\nxrun.frozen(\"no/where\")\n", ""), "no/where");
}

// ---- xrun.kd

TEST_F(Distillation, SlowTheRecipeLearnsFromItsTeacherAndResumes) {
  ASSERT_EQ(run(recipe(), "r", {.sets = sets({"steps=16", "optim.lr=0.01"})}), "");
  const std::vector<double> kd = values("r", "valid/kd"), ce = values("r", "valid/ce");
  ASSERT_GE(kd.size(), 3u);
  EXPECT_GT(kd.front(), 0.01);
  EXPECT_LT(kd.back(), 0.9 * kd.front());
  EXPECT_EQ(ce.size(), kd.size());
  expect_same_when_resumed(recipe(), {1, 3}, sets());
}

TEST_F(Distillation, AModelBesideItselfHasNoDivergence) {
  ASSERT_EQ(run(recipe(), "r", {.steps = 1, .sets = sets({"teacher=tiny", "ce=0"})}), "");
  EXPECT_EQ(values("r", "train/kd").at(0), 0);
  EXPECT_EQ(values("r", "train/loss").at(0), 0);
  EXPECT_EQ(values("r", "train/grad_norm").at(0), 0);
}

TEST_F(Distillation, AStoredTeacherGivesTheRunOfTheModel) {
  const auto with = [&](const std::string& options, const std::string& dir) {
    const std::string text =
        replaced(recipe(), "xrun.frozen(cfg.teacher)", "xrun.frozen(cfg.teacher" + options + ")");
    EXPECT_EQ(run(text, dir, {.sets = sets()}), "");
    return metrics(dir);
  };
  const auto online = with("", "online");
  EXPECT_EQ(with(", { cache = \"hidden\" }", "cold"), online);
  EXPECT_EQ(with(", { cache = \"hidden\" }", "warm"), online);
}

TEST_F(Distillation, ThePlanCountsTheGradientsOfALossOfWholeDistributions) {
  const auto head = [&](const std::string& options, const std::string& loss) {
    const std::string text = replaced(recipe(), "xrun.frozen(cfg.teacher)",
                                      "xrun.frozen(cfg.teacher, {" + options + "})");
    std::filesystem::remove_all("a");
    EXPECT_EQ(run(text, "a", {.steps = 1, .sets = sets({"kd.loss=" + loss})}), "");
    return planned("a", "head");
  };
  const int64_t page = int64_t{2} << 20, columns = head(" cache = \"topk\", k = 8 ", "topk");
  // A small model needs a page for the gradients, one for the teacher's logits, and hidden states;
  // with columns, those of each row.
  EXPECT_GE(head("", "full") - columns, 2 * page - (int64_t{1} << 16));
  EXPECT_LT(head("", "full") - columns, 2 * page + (int64_t{1} << 16));
  EXPECT_EQ(head("", "full") - head("", "topk"), page) << "gradients of a few columns";
}

TEST_F(Distillation, SlowThePlanIsWithinTenPercentOfTheMeasurement) {
  install_memory_count();
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "the quick brown fox jumps over the lazy dog ";
  write_file_atomic("long.txt", text);
  InitOptions options;
  options.tokenizer = source_path("tests/data/tiny_tokenizer");
  options.vocab = 16000;
  for (const int64_t hidden : {64, 256}) {
    for (const char* name : {"student", "larger"}) {
      options.hidden = name == std::string("student") ? hidden : 2 * hidden;
      options.ffn = 3 * options.hidden;
      std::filesystem::remove_all(name);
      init_model(name, options);
    }
    const std::string columns = replaced(recipe(), "xrun.frozen(cfg.teacher)",
                                         "xrun.frozen(cfg.teacher, { cache = \"topk\", k = 8 })");
    for (const auto& [loss, text] :
         {std::pair{"full", recipe()}, {"topk", recipe()}, {"topk", columns}}) {
      free_scratch();
      std::filesystem::remove_all("a");
      ASSERT_EQ(run(text, "a",
                    {.steps = 2,
                     .sets = sets({"model=student", "teacher=larger", "data.1.path=long.txt",
                                   "max_length=256", "batch.tokens=1024", "batch.max_tokens=1024",
                                   "valid.every=0", "valid.fraction=0",
                                   std::string("kd.loss=") + loss})}),
                "");
      const Json memory = read_json("a/run.json").at("memory");
      const double ratio = memory.at("planned").at("total").as_double() /
                           memory.at("measured").at("total").as_double();
      EXPECT_NEAR(ratio, 1, 0.1) << hidden << " " << loss << " " << dump_json(memory);
    }
  }
}

TEST_F(Distillation, StoredColumnsGiveTheirLossAgain) {
  std::string text = replaced(recipe(), "xrun.frozen(cfg.teacher)",
                              "xrun.frozen(cfg.teacher, { cache = \"topk\", k = 9 })");
  text = replaced(text, "loss = \"full\", temperature = 2", "temperature = 2");
  ASSERT_EQ(run(text, "cold", {.sets = sets()}), "");
  ASSERT_EQ(run(text, "warm", {.sets = sets()}), "");
  EXPECT_EQ(metrics("warm"), metrics("cold"));
  EXPECT_GT(values("warm", "train/kd").at(0), 0);
  has(run(replaced(text, "temperature = 2", "loss = \"full\""), "", {.steps = 1, .sets = sets()}),
      "the loss \"full\" needs the teacher's whole distribution");
}

TEST_F(Distillation, MoreColumnsThanACacheHasAreAnErrorAlsoInADryRun) {
  std::string text = replaced(recipe(), "xrun.frozen(cfg.teacher)",
                              "xrun.frozen(cfg.teacher, { cache = \"topk\", k = 9 })");
  text = replaced(text, "loss = \"full\"", "topk = 8192");  // the default, set explicitly
  const std::string wanted = "topk is 8192, but 9 columns are cached; set topk = 9 or cache more";
  has(run(text, "", {.steps = 1, .sets = sets()}), wanted);
  has(dry_error(text, sets()), wanted);
  EXPECT_EQ(run(replaced(text, "topk = 8192", "topk = 4"), "r", {.steps = 1, .sets = sets()}), "");
}

TEST_F(Distillation, TheScaleOfAStepIsComputedOverItsWholeBatch) {
  std::string text = recipe();
  text = replaced(text, "  run:log(adamw:step(batch, distill))", R"(
  local scale = ((-student:token_logprob(batch)):mean() / xrun.kd(batch, student, teacher, cfg.kd):mean()):item()
  run:log(adamw:step(batch, function(t)
    local kd, ce = xrun.kd(t, student, teacher, cfg.kd), -student:token_logprob(t)
    return scale * kd + ce, { kd = kd, ce = ce, scale = scale }
  end)))");
  ASSERT_EQ(run(text, "r", {.steps = 2, .sets = sets()}), "");
  const std::vector<double> kd = values("r", "train/kd"), ce = values("r", "train/ce"),
                            scale = values("r", "train/scale"), loss = values("r", "train/loss");
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_NEAR(scale[k] * kd[k], ce[k], 1e-4 * ce[k]);
    EXPECT_NEAR(loss[k], 2 * ce[k], 1e-4 * ce[k]);
  }
}

TEST_F(Distillation, ColumnsGiveALossInLua) {
  std::string text = recipe();
  text = replaced(text, "  local kd = xrun.kd(t, student, teacher, cfg.kd)", R"(
  local kd = xrun.kd(t, student, teacher, { loss = "full" })
  local q = teacher:columns(t, { k = 400 })
  local p = student:head(t, { targets = q.top_id })
  local own = (q.top_logprob:exp() * (q.top_logprob - p.logprob)):sum(1)
  assert((own - kd):abs():max():item() < 1e-4 and q.chunk:size(0) == kd:size(0))
  local some = teacher:columns(t, { k = 3 })
  assert((some.top_logprob:exp():sum(1) + some.rest - 1):abs():max():item() < 1e-5))");
  EXPECT_EQ(run(text, "r", {.steps = 1, .sets = sets()}), "");
}

TEST_F(Distillation, ADryRunNeedsNoWeights) {
  std::filesystem::remove("teacher/model.safetensors");
  EXPECT_EQ(dry_error(recipe(), sets()), "");
}

TEST_F(Distillation, SettingsThatTheLossDoesNotReadAreErrors) {
  const auto error_with = [&](const std::string& kd) {
    return run(replaced(recipe(), "loss = \"full\", temperature = 2", kd), "",
               {.steps = 1, .sets = sets()});
  };
  has(error_with("loss = \"full\", topk = 5"), "xrun.kd: the loss \"full\" does not read topk");
  has(error_with("loss = \"p_kl\""), "kd.loss: got \"p_kl\", wanted");
  has(error_with("temperatur = 2"), "temperature");
}

TEST_F(Distillation, ATeacherOfAnotherVocabularyNeedsAlignedData) {
  make_other();
  const std::string error = run(recipe(), "", {.steps = 1, .sets = sets({"teacher=other"})});
  has(error,
      "other cannot read this batch: its tokens are those of tiny, a different vocabulary (");
  has(error, "data:align(teacher), as in recipes/xdistill.lua");
}

// Vocabularies of one size may differ, and aligned data have a companion that must be read.
TEST_F(Distillation, ALossOfOneVocabularyRefusesAlignedDataOfTwo) {
  make_other();
  for (const char* cache : {"", ", { cache = 'topk' }", ", { cache = 'hidden' }"}) {
    std::string text = replaced(recipe(), "xrun.text(cfg.data, student)",
                                "xrun.text(cfg.data, student):align(teacher)");
    text = replaced(text, "xrun.frozen(cfg.teacher)",
                    std::string("xrun.frozen(cfg.teacher") + cache + ")");
    text = replaced(text, "return (1 - cfg.ce) * kd + cfg.ce * ce, ",
                    "return { chunk = (1 - cfg.ce) * kd, token = cfg.ce * ce }, ");
    for (const char* loss : {"full", "topk"}) {
      const auto settings = sets({"teacher=other", std::string("kd.loss=") + loss});
      const std::string wanted =
          "xrun.kd: the loss \"" + std::string(loss) +
          "\" compares one vocabulary, but the vocabulary of other differs from that of tiny";
      if (std::string(cache).find("topk") != std::string::npos && loss[0] == 'f') continue;
      has(run(text, "", {.steps = 1, .sets = settings}), wanted);
      has(dry_error(text, settings), wanted);
    }
  }
}

TEST_F(Distillation, ASecondTeacherIsNotReadBeyondItsContext) {
  make_other();
  copy_other("short", 12);
  std::string text = replaced(recipe(), "xrun.text(cfg.data, student)",
                              "xrun.text(cfg.data, student):align(teacher)");
  text = replaced(text, "local text ", "local short = xrun.frozen('short')\nlocal text ");
  text = replaced(text, "return (1 - cfg.ce) * kd + cfg.ce * ce, ",
                  "return { chunk = (1 - cfg.ce) * kd, token = cfg.ce * ce }, ");
  const auto settings = sets({"teacher=other", "kd.loss=uld"});
  const std::string wanted =
      "short reads at most 12 tokens (max_position_embeddings in its "
      "config.json), but this batch has a sequence of ";
  for (const char* teachers : {"short", "{ teacher, short }"}) {
    has(run(replaced(text, "student, teacher, cfg.kd",
                     std::string("student, ") + teachers + ", cfg.kd"),
            "", {.steps = 1, .sets = settings}),
        wanted);
  }
}

TEST_F(Distillation, ATeacherIsNotReadBeyondItsContext) {
  InitOptions options;
  options.hidden = 32;
  options.ffn = 64;
  options.max_length = 16;
  options.tokenizer = source_path("tests/data/tiny_tokenizer");
  options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
  init_model("short", options);
  has(run(recipe(), "", {.steps = 1, .sets = sets({"teacher=short"})}),
      "short reads at most 16 tokens (max_position_embeddings in its config.json), but this batch "
      "has a sequence of 32; set max_length = 16");
}

TEST_F(Distillation, SlowOnPolicyStartsAtRatioOneAndApproachesTheTeacher) {
  std::string prompts;
  for (int i = 0; i < 24; ++i) prompts += "{\"prompt\":\"fox " + std::to_string(i) + "\"}\n";
  write_file_atomic("prompts.jsonl", prompts);
  const std::string recipe = read_file(source_path("recipes/opd.lua"));
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "model=tiny",         "teacher=teacher", "template=chatml",    "data.1.path=prompts.jsonl",
        "valid.fraction=0.1", "batch.prompts=8", "sampling.samples=8", "sampling.max_tokens=8"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(run(recipe, "r", {.sets = with({"steps=30", "optim.lr=0.01"})}), "");
  for (const double ratio : values("r", "train/ratio")) EXPECT_EQ(ratio, 1);
  const std::vector<double> kl = values("r", "train/kl");
  const auto mean = [](auto begin, auto end) {
    return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
  };
  EXPECT_GT(mean(kl.begin(), kl.begin() + 5), 0);
  EXPECT_LT(mean(kl.end() - 5, kl.end()), mean(kl.begin(), kl.begin() + 5));
  expect_same_when_resumed(recipe, {1, 3}, with({"steps=4"}));
}

}  // namespace
}  // namespace xrun::distill_test
