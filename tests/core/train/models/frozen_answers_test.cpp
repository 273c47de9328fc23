// A frozen model whose vocabulary extends the batch's, and classifiers as reward and value models.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>

#include <algorithm>

#include "core/base/file.h"
#include "core/train/models/policy.h"
#include "core/train/models/scorer.h"
#include "tests/core/train/models/frozen_fixture.h"
#include "tests/error_of.h"

namespace xrun::frozen_answers_test {
namespace {

// ---- a vocabulary that extends another

class FrozenExtended : public FrozenFixture {
 protected:
  // The policy's tokenizer with one more token.
  FrozenExtended() : extended_((folder_.path() / "extended").string()) {
    std::filesystem::create_directories(extended_);
    std::filesystem::copy_file(kFrozenPolicy + "/tokenizer_config.json",
                               extended_ + "/tokenizer_config.json");
    Json json = read_json(kFrozenPolicy + "/tokenizer.json");
    Json added = json.at("added_tokens"), more = added.as_array().back();
    more.set("id", tokenizer_->vocab_size());
    more.set("content", "<|tool|>");
    added.push_back(more);
    json.set("added_tokens", added);
    write_file_atomic(extended_ + "/tokenizer.json", dump_json(json));
  }
  // Tokens of the extended vocabulary; with one of its own if `own`.
  std::shared_ptr<Batch> extended_batch(bool own) const {
    std::vector<PackedBatch> packs = tiny_packs(tiny_pairs(2), 2);
    if (own) packs[0].tokens[3] = static_cast<int32_t>(tokenizer_->vocab_size());
    BatchInfo info;
    info.tokenizer = {Tokenizer::load(extended_), extended_};
    return std::make_shared<Batch>(std::move(info), std::move(packs));
  }
  const std::string extended_;
};

TEST_F(FrozenExtended, AModelWithMoreTokensReadsTheBatch) {
  const auto model = FrozenModel::open(model_with("more", extended_));
  const auto some = batch({1, 2});
  MicroBatch& micro = *some->micros()[0];
  EXPECT_TRUE(model->reads_tokens_of(micro));
  EXPECT_EQ(model->columns(), tokenizer_->vocab_size() + 1);
  EXPECT_EQ(model->common_columns(micro), tokenizer_->vocab_size());
  EXPECT_EQ(model->token_logprob(micro.all()).numel(), micro.row_count());
}

TEST_F(FrozenExtended, AModelWithFewerTokensReadsBatchesWithoutTheOthers) {
  const auto model = frozen();
  const auto good = extended_batch(false), bad = extended_batch(true);
  EXPECT_EQ(model->common_columns(*good->micros()[0]), tokenizer_->vocab_size());
  EXPECT_GT(model->token_logprob(good->micros()[0]->all()).numel(), 0);
  EXPECT_EQ(message_of<Error>([&] { model->token_logprob(bad->micros()[0]->all()); }),
            fmt::format("{} cannot read this batch: token {} is \"<|tool|>\", which only the "
                        "vocabulary of {} has; align the data with this model, "
                        "data:align(teacher)",
                        kFrozenPolicy, tokenizer_->vocab_size(), extended_));
}

// ---- classifiers

class FrozenClassifier : public FrozenFixture {
 protected:
  // An exported reward model with random weights of its head.
  FrozenClassifier() : scorer_(std::make_shared<Scorer>(Policy::open(kFrozenPolicy))) {
    at::Tensor weight = scorer_->parameters().back().master.detach();
    weight.copy_(at::arange(weight.numel()).reshape(weight.sizes()).mul(0.7).sin());
    scorer_->export_to(dir());
  }
  std::filesystem::path dir() const { return folder_.path() / "reward"; }

  std::shared_ptr<Scorer> scorer_;
};

TEST_F(FrozenClassifier, GivesTheScoresOfTheScorerThatWasExported) {
  const auto reward = FrozenModel::open(dir());
  const auto some = batch({1, 2, 30});
  const at::NoGradGuard no_grad;
  const at::Tensor want = scorer_->score(*some);
  EXPECT_TRUE(at::equal(reward->score(*some), want));
  EXPECT_GT(want.abs().min().item<double>(), 1e-3);
  const View chosen = some->micros()[0]->chosen();
  EXPECT_TRUE(at::equal(reward->score(chosen), scorer_->score(chosen)));
}

TEST_F(FrozenClassifier, AValuePerTokenIsTheScoreOfTheTextBeforeIt) {
  const auto value = FrozenModel::open(dir());
  const auto some = batch({1, 2});
  const at::Tensor values = value->token_score(*some);
  ASSERT_EQ(values.numel(), some->row_count());
  // If a text is cut before its last trained token, its score is the value there.
  PackedBatch whole = some->micros()[0]->pack(), cut;
  SegmentTokens first = whole.segment_tokens(0);
  const auto last = std::find(first.trained.rbegin(), first.trained.rend(), 1);
  first.ids.resize(static_cast<size_t>(first.trained.rend() - last) - 1);
  first.trained.resize(first.ids.size());
  cut.append({}, first.ids, first.trained);
  BatchInfo info;
  info.tokenizer = {tokenizer_, kFrozenPolicy};
  Batch alone(info, {cut});
  const View view = some->micros()[0]->all();
  const at::Tensor of_first = value->token_score(view).index({view.rows().row_segment.eq(0)});
  EXPECT_EQ(of_first[-1].item<float>(), value->score(alone)[0].item<float>());
}

TEST_F(FrozenClassifier, HasNoLogprobsAndALanguageModelNoScore) {
  const auto reward = FrozenModel::open(dir());
  const auto some = batch({1});
  const View view = some->micros()[0]->all();
  const std::string wanted =
      dir().string() + " is a sequence classifier: it gives scores, not log-probs";
  EXPECT_EQ(message_of<Error>([&] { reward->token_logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { reward->logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { reward->chunk_logprob(view); }), wanted);
  EXPECT_EQ(message_of<Error>([&] { frozen()->score(view); }),
            kFrozenPolicy +
                " is a language model, without a score; a reward or value model is a folder of "
                "run:export(scorer), or another sequence classifier of one label");
  EXPECT_FALSE(reward->loaded());
}

TEST_F(FrozenClassifier, OfSeveralLabelsIsRefused) {
  Json config = read_json((dir() / "config.json").string());
  config.set("id2label", Json(Json::Object{{"0", "bad"}, {"1", "good"}}));
  write_file_atomic(dir() / "config.json", dump_json(config));
  EXPECT_EQ(message_of<Error>([&] { FrozenModel::open(dir()); }),
            dir().string() +
                " is a classifier of 2 labels (id2label or num_labels in its config.json); a "
                "reward or value model has 1");
}

}  // namespace
}  // namespace xrun::frozen_answers_test
