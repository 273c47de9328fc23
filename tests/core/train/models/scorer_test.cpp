// A value head: scores, gradients, saved state and the exported classifier.

#include "core/train/models/scorer.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/tensor.h>

#include "core/base/file.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/train/step_fixture.h"
#include "tests/error_of.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun::scorer_test {
namespace {

const std::filesystem::path kGolden = source_path("tests/golden");

class ScorerTest : public StepTest {
 protected:
  void SetUp() override {
    StepTest::SetUp();
    scorer_ = std::make_shared<Scorer>(policy_);
    AdamWOptions options;
    options.lr = 1e-2;
    head_adamw_ =
        std::make_unique<AdamW>(std::vector<std::shared_ptr<Trainable>>{scorer_}, options);
  }
  Objective bradley_terry() {
    return [scorer = scorer_](MicroBatch& p) {
      const at::Tensor margin = scorer->score(p.chosen()).sub(scorer->score(p.rejected()));
      ObjectiveResult result;
      result.losses.emplace_back(Unit::kPair, at::log_sigmoid(margin).neg());
      result.metrics.emplace_back("accuracy", margin.sign().add(1).div(2));
      return result;
    };
  }
  void train(int64_t steps) {
    for (int64_t step = 0; step < steps; ++step) {
      BatchInfo info;
      info.step = step;
      loss_ = value(train_step({{tiny_batch(tiny_pairs(6), 4, info).get(), bradley_terry()}},
                               head_adamw_.get()),
                    "loss");
    }
  }
  static at::Tensor named(const std::vector<Parameter>& parameters, const std::string& name) {
    for (const Parameter& parameter : parameters) {
      if (parameter.name == name) return parameter.master.detach().clone();
    }
    return {};
  }

  std::shared_ptr<Scorer> scorer_;
  std::unique_ptr<AdamW> head_adamw_;
  double loss_ = 0;
};

TEST_F(ScorerTest, EveryScoreStartsAtZero) {
  const auto batch = tiny_batch(tiny_pairs(7), 3);
  EXPECT_TRUE(scorer_->score(*batch).eq(0).all().item().toBool());
  const Metrics metrics = train_step({{batch.get(), bradley_terry()}}, head_adamw_.get());
  EXPECT_NEAR(value(metrics, "loss"), std::log(2.0), 1e-7);
  EXPECT_EQ(value(metrics, "accuracy"), 0.5);
  EXPECT_GT(value(metrics, "grad_norm"), 0.0);
}

TEST_F(ScorerTest, TheHeadAndTheBodyLearn) {
  const std::string before = policy_->digest();
  train(1);
  EXPECT_EQ(policy_->digest(), before);  // a head of zeros gives the body no gradient
  train(8);
  EXPECT_LT(loss_, 0.6);
  EXPECT_NE(policy_->digest(), before);
}

TEST_F(ScorerTest, AScoreIsTakenAtTheLastTokenInAnyPacking) {
  train(3);
  const std::vector<TinyPair> pairs = tiny_pairs(5);
  const at::Tensor whole = scorer_->score(*tiny_batch(pairs, 5));
  const at::Tensor alone = scorer_->score(*tiny_batch(pairs, 1));
  EXPECT_LT(whole.sub(alone).abs().max().item().toDouble(), 1e-5);
  std::vector<TinyPair> longer = pairs;
  longer[2].chosen.push_back(17);
  const at::Tensor other = scorer_->score(*tiny_batch(longer, 5)).sub(whole).abs();
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(other[i].item().toDouble() > 1e-4, i == 4) << i;
}

TEST_F(ScorerTest, SharesTheForwardOfTheLogProbs) {
  const auto batch = tiny_batch(tiny_pairs(3), 3);
  MicroBatch& micro = *batch->micros()[0];
  for (const bool scored : {true, false}) {
    const at::Tensor hidden = micro.hidden(policy_->model());
    hidden.retain_grad();
    (scored ? scorer_->score(micro.all()) : policy_->logprob(micro.all())).sum().backward();
    EXPECT_TRUE(hidden.grad().defined()) << scored;
    micro.close();
  }
}

TEST_F(ScorerTest, RestoresToTheSameScores) {
  train(3);
  std::map<std::string, at::Tensor> saved;
  for (const NamedTensor& one : scorer_->tensors()) saved[one.name] = one.tensor.clone();
  EXPECT_EQ(saved.count("score.weight"), 1u);
  const Json state = scorer_->state();
  const auto batch = tiny_batch(tiny_pairs(4), 4);
  const auto source = [&](const std::string& name) { return saved.at(name); };
  const auto other = std::make_shared<Scorer>(Policy::open(folder_.model()));
  other->restore(source, state);
  EXPECT_TRUE(at::equal(other->score(*batch), scorer_->score(*batch)));
  saved["score.weight"] = at::tensor({1.f, 2.f});
  EXPECT_EQ(message_of<Error>([&] {
              std::make_shared<Scorer>(Policy::open(folder_.model()))->restore(source, state);
            }),
            "the saved tensor score.weight has shape [2], wanted [1, 32]: it belongs to "
            "another model");
}

// Folders, heads and scores by transformers (tests/golden/make/scores.py).
TEST_F(ScorerTest, AgreesWithTransformersAndExportsItsFolder) {
  const Json golden = read_json((kGolden / "scores.json").string());
  for (const auto& [name, wanted] : golden.at("models").as_object()) {
    SCOPED_TRACE(name);
    const auto scorer = std::make_shared<Scorer>(Policy::open(kGolden / "models" / name));
    std::vector<float> head;
    for (const Json& one : wanted.at("head").as_array()) {
      head.push_back(static_cast<float>(one.as_double()));
    }
    scorer->parameters().back().master.detach().copy_(at::tensor(head).unsqueeze(0));
    PackedBatch pack;
    for (int copy = 0; copy < 2; ++copy) {  // which folded are one
      for (const Json& sequence : golden.at("sequences").as_array()) {
        std::vector<int32_t> ids;
        for (const Json& id : sequence.as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
        PackedBatch::Segment segment;
        segment.segment_id = pack.segment_count();
        pack.append(segment, ids, std::vector<uint8_t>(ids.size(), 1));
      }
    }
    const Json::Array& values = wanted.at("scores").as_array();
    for (const FoldMode mode : {FoldMode::kNever, FoldMode::kAlways}) {
      Batch batch({.unit = Unit::kToken, .fold = {.mode = mode, .min_run = 1}}, {pack});
      const at::Tensor scores = scorer->score(batch);
      ASSERT_EQ(scores.numel(), 2 * std::ssize(values));
      for (int64_t i = 0; i < scores.numel(); ++i) {
        expect_parity(scores[i].item().toDouble(),
                      values[static_cast<size_t>(i) % values.size()].as_double(), 1e-5);
      }
    }
    const std::filesystem::path out = folder_.path() / name;
    scorer->export_to(out);
    const Json config = read_json((out / "config.json").string());
    EXPECT_EQ(dump_json(config.at("architectures")), dump_json(wanted.at("architectures")));
    EXPECT_EQ(dump_json(config.at("id2label")), R"({"0":"LABEL_0"})");
    const SafetensorsFolder file(out);
    std::vector<std::string> expected;
    for (const Json& one : wanted.at("names").as_array()) expected.push_back(one.as_string());
    EXPECT_EQ(file.names(), expected);
    EXPECT_EQ(file.read("score.weight").sizes(), (std::vector<int64_t>{1, std::ssize(head)}));
  }
}

}  // namespace
}  // namespace xrun::scorer_test
