// A mismatched batch joins each prompt with the answer of the sequence before it.

#include <gtest/gtest.h>

#include "core/model/model.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/batches/data_batch.h"
#include "core/train/models/policy.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/error_of.h"

namespace xrun::mismatched_batch_test {
namespace {

struct SampledAnswer {
  std::vector<int32_t> prompt, answer;
};

const std::vector<SampledAnswer> kAnswers = {
    {{1, 2}, {3}}, {{4, 5, 6}, {7, 8}}, {{9}, {10, 11, 12, 13}}, {{14, 15}, {16, 17, 18}}};

std::shared_ptr<Batch> batch_of(const std::vector<SampledAnswer>& answers,
                                const std::vector<std::vector<size_t>>& packs,
                                BatchInfo info = {}) {
  info.unit = Unit::kToken;
  std::vector<PackedBatch> packed;
  for (const std::vector<size_t>& indices : packs) {
    PackedBatch& pack = packed.emplace_back();
    for (const size_t i : indices) {
      std::vector<int32_t> ids = answers[i].prompt;
      ids.insert(ids.end(), answers[i].answer.begin(), answers[i].answer.end());
      std::vector<uint8_t> trained(ids.size(), 0);
      std::fill(trained.begin() + std::ssize(answers[i].prompt), trained.end(), 1);
      // As after a template's last newline, unless that would leave nothing to train.
      if (answers[i].answer.size() > 1) trained.back() = 0;
      const auto index = static_cast<int64_t>(i);
      PackedBatch::Segment segment{.row_id = 100 + index, .group_id = index, .segment_id = index};
      segment.weight = static_cast<float>(1 + index);
      pack.append(segment, ids, trained);
    }
  }
  return std::make_shared<Batch>(std::move(info), std::move(packed));
}

// Sequences in batch order as "1 2 | 16* 17* 18".
std::vector<std::string> texts(const Batch& batch) {
  std::vector<std::string> packed, out;
  for (const auto& micro : batch.micros()) {
    for (int64_t s = 0; s < micro->segment_count(); ++s) {
      const SegmentTokens tokens = micro->pack().segment_tokens(s);
      std::string& text = packed.emplace_back();
      for (size_t i = 0; i < tokens.ids.size(); ++i) {
        text += fmt::format("{}{} ", tokens.ids[i], tokens.trained[i] ? "*" : "");
      }
    }
  }
  for (const int64_t index : batch.segment_order())
    out.push_back(packed[static_cast<size_t>(index)]);
  return out;
}

const std::vector<std::string> kMismatched = {"1 2 16* 17* 18 ", "4 5 6 3* ", "9 7* 8 ",
                                              "14 15 10* 11* 12* 13 "};

TEST(MismatchedBatch, EachPromptGetsThePreviousAnswer) {
  const auto batch = mismatched_batch(*batch_of(kAnswers, {{0, 1, 2, 3}}));
  EXPECT_EQ(texts(*batch), kMismatched);
  EXPECT_EQ(batch->unit(), Unit::kToken);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(batch->field("row")[i].item().toLong(), -1);
    EXPECT_EQ(batch->field("weight")[i].item().toDouble(), 1 + i);  // of the prompt's row
  }
  for (const auto& micro : batch->micros()) micro->pack().validate(250);
}

TEST(MismatchedBatch, PackingDoesNotChangeTheSequences) {
  const auto batch = mismatched_batch(*batch_of(kAnswers, {{3, 1}, {2}, {0}}));
  EXPECT_EQ(texts(*batch), kMismatched);
  EXPECT_GT(batch->micros().size(), 1u);  // no pack exceeds the largest given one, 10 tokens
  for (const auto& micro : batch->micros()) EXPECT_LE(micro->token_count(), 10);
}

TEST(MismatchedBatch, AnAnswerIsCutAtTheLimitOfTheData) {
  BatchInfo info;
  info.max_tokens = 100;
  info.max_length = 5;
  const auto batch = mismatched_batch(*batch_of(kAnswers, {{0, 1, 2, 3}}, info));
  EXPECT_EQ(texts(*batch)[3], "14 15 10* 11* 12* ");
  EXPECT_EQ(texts(*batch)[0], kMismatched[0]);
  info.max_length = 0;
  info.max_tokens = 5;
  const auto narrow = mismatched_batch(*batch_of(kAnswers, {{0, 1, 2, 3}}, info));
  for (const auto& micro : narrow->micros()) EXPECT_LE(micro->token_count(), 5);
}

// Two answers to one prompt, twice, as KTO's data has them.
TEST(MismatchedBatch, FoldsToTheLogProbsOfItsSeparateSequences) {
  const std::vector<int32_t> first = {1, 2, 3, 4, 5, 6}, second = {20, 21, 22, 23, 24};
  const std::vector<SampledAnswer> answers = {{first, {7, 8}},
                                              {first, {7, 9, 10}},
                                              {second, {30, 31}},
                                              {second, {32}},
                                              {second, {30, 33, 34}}};
  const auto mismatched = [&](FoldMode mode) {
    return mismatched_batch(*batch_of(answers, {{0, 1, 2, 3, 4}}, fold_info(mode)));
  };
  const auto whole = mismatched(FoldMode::kNever), folded = mismatched(FoldMode::kAlways);
  EXPECT_EQ(texts(*folded), texts(*whole));
  const TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  ASSERT_EQ(folded->micros().size(), 1u);
  // The prompts of 6 and 5 tokens are computed once, not twice and three times.
  EXPECT_LT(folded->micros()[0]->computed(policy->model()).token_count(),
            whole->token_count() - 10);
  const at::Tensor want = policy->token_logprob(*whole);
  EXPECT_TRUE(policy->token_logprob(*folded).equal(want));
}

TEST(MismatchedBatch, PairsAreRefused) {
  const std::string error = error_of([] { mismatched_batch(*tiny_batch(tiny_pairs(3), 3)); });
  EXPECT_NE(error.find("this batch is made of pairs"), std::string::npos) << error;
}

TEST(MismatchedBatch, ASingleSequenceIsRefused) {
  const std::string error = error_of([] { mismatched_batch(*batch_of(kAnswers, {{2}})); });
  EXPECT_NE(error.find("need two sequences, this batch has 1; skip it"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace xrun::mismatched_batch_test
