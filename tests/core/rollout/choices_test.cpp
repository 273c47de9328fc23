// Choices scored together have the bits of each choice alone after its prompt, in every golden
// family.

#include "core/rollout/choices.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/model/model.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/model/golden_pack.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/golden_models.h"
#include "tests/tree.h"

namespace xrun::choices_test {

namespace {

using Ids = std::vector<int32_t>;

class ChoicesTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::filesystem::path dir = source_path("tests/golden/models/" + GetParam());
    model_ = load_model(dir, at::kFloat, false);
    for (Ids& prompt : golden_sequences(SafetensorsFile(dir / "golden.safetensors"))) {
      prompt.resize(std::min<size_t>(prompt.size(), model_->config().max_length - 6));
      questions_.push_back({prompt, {{3, 1, 4}, {5}, {3, 1, 4, 1, 5, 2}}, {7, 2, 11}});
    }
  }

  std::vector<float> alone(const Ids& prompt, const Ids& choice) {
    const at::NoGradGuard no_grad;
    Ids all = prompt;
    std::vector<int64_t> index, target;
    for (const int32_t id : choice) {
      index.push_back(std::ssize(all) - 1);
      target.push_back(id);
      all.push_back(id);
    }
    const at::Tensor logprob =
        model_->token_logprob(pack_sequences({all}), int64_tensor(index), int64_tensor(target));
    const float* const begin = logprob.const_data_ptr<float>();
    return {begin, begin + logprob.numel()};
  }

  std::shared_ptr<Model> model_;
  std::vector<ChoiceQuestion> questions_;
};

INSTANTIATE_TEST_SUITE_P(Family, ChoicesTest,
                         testing::ValuesIn(golden_models({"dynamic", "longrope", "yarn"})),
                         [](const auto& info) { return info.param; });

}  // namespace

TEST_P(ChoicesTest, AChoiceHasTheBitsOfItsForwardAlone) {
  for (const int64_t max_tokens : {1, 100, 4096}) {
    const auto got = score_choices(*model_, questions_, {.max_tokens = max_tokens});
    ASSERT_EQ(got.size(), questions_.size());
    for (size_t q = 0; q < got.size(); ++q) {
      ASSERT_EQ(got[q].size(), 3u);
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_EQ(got[q][c].logprobs, alone(questions_[q].prompt, questions_[q].choices[c]))
            << "question " << q << ", choice " << c;
      }
    }
  }
}

TEST_P(ChoicesTest, SumMeanAndPerByteFollowFromTheLogprobs) {
  const ChoiceScore got = score_choices(*model_, questions_).at(0).at(2);
  double sum = 0;
  for (const float one : alone(questions_[0].prompt, questions_[0].choices[2])) sum += double{one};
  EXPECT_EQ(got.sum, sum);
  EXPECT_EQ(got.mean, sum / 6);
  EXPECT_EQ(got.per_byte, sum / 11);
}

TEST_P(ChoicesTest, WithoutBytesTheScorePerByteIsZeroAndWithoutChoicesThereIsNone) {
  questions_[0].bytes = {};
  EXPECT_EQ(score_choices(*model_, {questions_[0]}).at(0).at(2).per_byte, 0);
  EXPECT_TRUE(score_choices(*model_, {}).empty());
  questions_[0].choices = {};
  EXPECT_TRUE(score_choices(*model_, {questions_[0]}).at(0).empty());
}

TEST_P(ChoicesTest, RefusesQuestionsThatDoNotFit) {
  const auto refused = [&](const ChoiceQuestion& question) {
    return error_of([&] { score_choices(*model_, {questions_[0], question}); });
  };
  EXPECT_EQ(refused({{}, {{1}}}),
            "question 2: the prompt is empty; a continuation needs at least one token");
  EXPECT_EQ(refused({{1}, {{1}, {}}}),
            "question 2, choice 2 is empty; a continuation needs at least one token");
  EXPECT_EQ(refused({{1}, {{1}}, {0}}), "question 2, choice 1 has 0 bytes, wanted at least 1");
  EXPECT_EQ(refused({{1}, {{1}}, {1, 2}}),
            "question 2: 1 choices have 2 byte counts; wanted one per choice, or none");
  const auto limit = static_cast<size_t>(model_->config().max_length);
  EXPECT_EQ(
      refused({Ids(limit, 1), {{1}}}),
      fmt::format("question 2, choice 1 and its prompt have {} tokens, the model's limit is {}",
                  limit + 1, limit));
}

TEST_P(ChoicesTest, TheCallersPollDecidesWhenASignalStopsIt) {
  const auto scores = score_choices(*model_, questions_);
  request_interrupt(SIGINT);
  EXPECT_EQ(signal_of([&] { score_choices(*model_, questions_); }), SIGINT);
  size_t polls = 0;
  const auto patient =
      score_choices(*model_, questions_, {.max_tokens = 1, .poll = [&] { ++polls; }});
  EXPECT_EQ(polls, questions_.size());
  ASSERT_EQ(patient.size(), scores.size());
  EXPECT_EQ(patient[0][0].logprobs, scores[0][0].logprobs);
  EXPECT_EQ(signal_of([&] {
              score_choices(*model_, questions_, {.poll = [] { throw Interrupted(SIGTERM); }});
            }),
            SIGTERM);
  clear_interrupt();
}

}  // namespace xrun::choices_test
