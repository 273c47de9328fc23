// Distillation between two vocabularies: a student of random weights, chunks of an alignment, and
// the projection as an input of the run.

#include <cmath>

#include "core/distill/projection.h"
#include "core/distill/projection_build.h"
#include "tests/lua/bind/train/distill_fixture.h"

namespace xrun::xdistill_test {
namespace {

// The recipe of two tokenizers with a teacher in ./other.
class TwoTokenizerRecipe : public Distillation {
 protected:
  TwoTokenizerRecipe() { make_other(); }
  static std::string recipe() {
    // The test runs in another folder.
    return replaced(read_file(source_path("recipes/xdistill.lua")), "recipes/data/tokenizer",
                    source_path("recipes/data/tokenizer"));
  }
  static std::vector<std::string> sets(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"teacher=other",     "data.1.path=text.txt", "max_length=64",
                                    "batch.sequences=6", "valid.every=8",        "steps=4"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<std::string> small(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = sets({"model.layers=1", "model.hidden=32", "model.heads=2"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static void make_projection(const std::string& path, const std::string& student) {
    save_projection(build_projection(*Tokenizer::load(source_path(student)),
                                     *Tokenizer::load(source_path("tests/data/tokenizers/smol"))),
                    path);
  }
};

TEST_F(Distillation, SlowTwoTokenizersLearnByChunkAndResume) {
  make_other();
  const std::string recipe = read_file(source_path("recipes/xdistill.lua"));
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"model=tiny",    "teacher=other",     "data.1.path=text.txt",
                                    "max_length=64", "batch.sequences=6", "valid.every=8"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(
      run(recipe, "r", {.sets = with({"steps=24", "optim.lr=0.01", "kd.loss=hybrid", "ce=0"})}),
      "");
  const std::vector<double> kd = values("r", "valid/kd");
  EXPECT_LT(kd.back(), 0.9 * kd.front());
  for (const double wrong : values("r", "align/wrong")) EXPECT_EQ(wrong, 0);
  for (const double chunks : values("r", "align/chunks")) EXPECT_GT(chunks, 30);
  // A chunk counts once in any micro-batch.
  ASSERT_EQ(run(recipe, "whole_step", {.steps = 3, .sets = with({"steps=4"})}), "");
  ASSERT_EQ(run(recipe, "small", {.steps = 3, .sets = with({"steps=4", "batch.max_tokens=64"})}),
            "");
  const std::vector<double> whole = values("whole_step", "train/loss"),
                            small = values("small", "train/loss");
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(small.at(i), whole[i], 1e-5 * whole[i]);
  // The KL term of gold and h-kl is not normalised, so it may be negative.
  for (const char* const loss : {"p-kl", "h-kl", "uld"}) {
    ASSERT_EQ(run(recipe, loss, {.steps = 1, .sets = with({std::string("kd.loss=") + loss})}), "")
        << loss;
    EXPECT_NE(values(loss, "train/kd").at(0), 0) << loss;
  }
  expect_same_when_resumed(recipe, {1, 3}, with({"steps=4"}));
}

TEST_F(TwoTokenizerRecipe, AStudentOfRandomWeightsIsMadeAndResumes) {
  expect_same_when_resumed(recipe(), {2}, small());
  EXPECT_GT(values("whole", "train/kd").at(0), 0);
  // The cache may be removed, since the same seed gives the same weights.
  std::filesystem::remove_all("cache/models");
  ASSERT_EQ(run(recipe(), "again", {.sets = small()}), "");
  has(output_, "making a model of random weights in ");
  EXPECT_EQ(metrics("again"), metrics("whole"));
  ASSERT_EQ(run(recipe(), "other_seed", {.steps = 1, .sets = small({"seed=1"})}), "");
  EXPECT_NE(values("other_seed", "train/kd").at(0), values("whole", "train/kd").at(0));
}

TEST_F(TwoTokenizerRecipe, AResumeWithOtherSizesIsRefused) {
  ASSERT_EQ(run(recipe(), "r", {.steps = 2, .sets = small()}), "");
  has(run(recipe(), "r", {.resume = true, .sets = small({"model.layers=2"})}), "model.layers");
  EXPECT_EQ(read_json("r/config.json").at("config").at("model").at("layers").as_int(), 1);
}

// The recipe of docs/teachers.md.
TEST_F(TwoTokenizerRecipe, TheScaleOfAStepDoesNotDependOnMicroBatches) {
  const std::string text = replaced(recipe(), "  run:log(adamw:step(batch, distill))", R"(
  local ce = -student:token_logprob(batch)
  local kd = xrun.kd(batch, student, teacher, cfg.kd)
  local size  = kd:numel() > 0 and math.abs(kd:mean():item()) or 0
  local scale = size > 0 and ce:mean():item() / size or 1
  run:log(adamw:step(batch, function(t)
    local kd, ce = xrun.kd(t, student, teacher, cfg.kd), -student:token_logprob(t)
    return { chunk = scale * kd, token = ce }, { kd = kd, ce = ce, scale = scale }
  end)))");
  ASSERT_EQ(run(text, "whole", {.steps = 2, .sets = small()}), "");
  ASSERT_EQ(run(text, "small", {.steps = 2, .sets = small({"batch.max_tokens=64"})}), "");
  const auto close = [](double a, double b) { EXPECT_NEAR(a, b, 1e-5 * std::abs(b)); };
  for (size_t k = 0; k < 2; ++k) {
    const auto of = [&](const std::string& dir, const char* name) {
      return values(dir, std::string("train/") + name).at(k);
    };
    close(of("small", "scale"), of("whole", "scale"));
    close(of("small", "loss"), of("whole", "loss"));
    close(of("whole", "scale") * std::abs(of("whole", "kd")), of("whole", "ce"));
  }
}

TEST_F(TwoTokenizerRecipe, ADryRunOpensTheProjection) {
  make_projection("pair.safetensors", "recipes/data/tokenizer");
  EXPECT_EQ(dry_error(recipe(), small({"kd.projection=pair.safetensors"})), "");
  has(dry_error(recipe(), small({"kd.projection=missing.safetensors"})), "missing.safetensors");
  make_projection("wrong.safetensors", "tests/data/tiny_tokenizer");
  has(dry_error(recipe(), small({"kd.projection=wrong.safetensors"})),
      "wrong.safetensors: was made for");
  has(dry_error(recipe(), small({"kd.loss=full"})), "the loss \"full\" compares one vocabulary");
}

TEST_F(TwoTokenizerRecipe, AResumeRefusesAnotherProjection) {
  make_projection("pair.safetensors", "recipes/data/tokenizer");
  const auto sets = small({"kd.projection=pair.safetensors"});
  ASSERT_EQ(run(recipe(), "r", {.steps = 2, .sets = sets}), "");
  ProjectionOptions options;
  options.reverse = false;
  save_projection(
      build_projection(*Tokenizer::load(source_path("recipes/data/tokenizer")),
                       *Tokenizer::load(source_path("tests/data/tokenizers/smol")), options),
      "pair.safetensors");
  has(run(recipe(), "r", {.resume = true, .sets = sets}),
      "the projection pair.safetensors has changed since the run began");
  make_projection("pair.safetensors", "recipes/data/tokenizer");
  EXPECT_EQ(run(recipe(), "r", {.resume = true, .sets = sets}), "");
}

}  // namespace
}  // namespace xrun::xdistill_test
