// Dynamic sampling and the queue of batches sampled ahead, over made-up answers.

#include "core/rollout/group_queue.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::group_queue_test {

// A prompt's rewards: of prompt i those of kRewards[i % 4].
const std::vector<std::vector<double>> kRewards = {{0, 1}, {1, 1}, {0.5, 0.25}, {0, 0}};

class Groups : public testing::Test {
 protected:
  SampledPrompts sample(int64_t first, int64_t count) {
    SampledPrompts sampled;
    calls_.push_back({first, count});
    for (int64_t p = first; p < first + count; ++p) {
      RolloutList& group = sampled.groups.emplace_back();
      const auto ids = std::make_shared<const std::vector<int32_t>>(std::vector<int32_t>{7, 8});
      const std::vector<double>& rewards = rewards_[static_cast<size_t>(p) % rewards_.size()];
      for (size_t s = 0; s < rewards.size(); ++s) {
        auto one = std::make_shared<Rollout>();
        one->row = p;
        one->prompt = p - first;
        one->sample = static_cast<int64_t>(s);
        one->version = version_;
        one->prompt_ids = ids;
        one->ids = {static_cast<int32_t>(p), static_cast<int32_t>(s)};
        one->logprobs = {-0.1F, -1.0F / 3};
        one->prompt_text = "say \xEF\xBF\xBD";
        one->text = "\"quoted\" \n";
        one->finish = "stop";
        one->reward = rewards[s];
        one->parts = {{"right", rewards[s] / 3}};
        group.push_back(one);
        sampled.all.push_back(one);
      }
    }
    return sampled;
  }
  TakenGroups take(GroupQueue& queue, int64_t version = 0) {
    version_ = version;
    return queue.take(version,
                      [this](int64_t first, int64_t count) { return sample(first, count); });
  }
  static std::vector<int64_t> rows(const TakenGroups& taken) {
    std::vector<int64_t> rows;
    for (const RolloutList& group : taken.groups) rows.push_back(group.front()->row);
    return rows;
  }
  using Rows = std::vector<int64_t>;

  std::vector<std::vector<double>> rewards_ = kRewards;
  std::vector<std::pair<int64_t, int64_t>> calls_;
  int64_t version_ = 0;
};

TEST_F(Groups, AreDrawnUntilTheBatchIsFullOfVariedRewards) {
  GroupQueue queue({.groups = 4});
  const TakenGroups taken = take(queue);
  EXPECT_EQ(rows(taken), (Rows{0, 2, 4, 6}));
  // As many as are missing: nothing is left over.
  EXPECT_EQ(calls_, (std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {4, 2}, {6, 1}}));
  EXPECT_EQ(queue.waiting(), 0);
  EXPECT_EQ(taken.counts.attempts, 7);
  EXPECT_EQ(taken.counts.valid, 4);
  EXPECT_EQ(taken.counts.zero_variance, 3);
  EXPECT_EQ(taken.left_out.size(), 6u);
  EXPECT_EQ(taken.groups[3][1]->prompt, 3);
  EXPECT_EQ(taken.left_out[0]->prompt, 4);
  EXPECT_EQ(taken.left_out[5]->prompt, 6);
  EXPECT_EQ(rows(take(queue)), (Rows{8, 10, 12, 14}));
}

TEST_F(Groups, OfALargerRoundAreCarriedToTheNextBatch) {
  GroupQueue queue({.groups = 4, .round = 10});
  EXPECT_EQ(rows(take(queue)), (Rows{0, 2, 4, 6}));
  EXPECT_EQ(queue.waiting(), 1);
  EXPECT_EQ(rows(take(queue)), (Rows{8, 10, 12, 14}));
  EXPECT_EQ(queue.waiting(), 2);
  EXPECT_EQ(queue.cursor(), 20);
}

TEST_F(Groups, OfEqualRewardsUpToEpsAreLeftOut) {
  rewards_ = {{1, 1 + 1e-9}, {0, 1}, {3}, {}};
  GroupQueue queue({.groups = 1});
  EXPECT_EQ(rows(take(queue)), (Rows{1}));
  EXPECT_EQ(rows(take(queue)), (Rows{5})) << "one answer has no variance, nor has none";
  GroupQueue exact({.groups = 1, .eps = 0});
  EXPECT_EQ(rows(take(exact)), (Rows{0}));
  EXPECT_DOUBLE_EQ(reward_deviation(sample(1, 1).groups[0]), std::sqrt(0.5));
}

TEST_F(Groups, AreSampledAheadWithOlderWeights) {
  rewards_ = {{0, 1}};
  GroupQueue queue({.groups = 2, .depth = 2});
  EXPECT_EQ(rows(take(queue, 0)), (Rows{0, 1}));
  EXPECT_EQ(queue.waiting(), 4);
  for (int64_t version = 1; version < 6; ++version) {
    const TakenGroups taken = take(queue, version);
    EXPECT_EQ(rows(taken), (Rows{2 * version, 2 * version + 1}));
    EXPECT_EQ(taken.groups[0][0]->version, std::max<int64_t>(version - 2, 0));
    EXPECT_EQ(taken.counts.attempts, 2);
  }
}

TEST_F(Groups, OlderThanTheLimitAreDroppedAndCounted) {
  rewards_ = {{0, 1}};
  GroupQueue queue({.groups = 2, .depth = 2, .staleness = 1});
  take(queue, 0);
  EXPECT_EQ(take(queue, 1).counts.stale, 0);
  const TakenGroups taken = take(queue, 2);  // two groups of version 0 wait
  EXPECT_EQ(taken.counts.stale, 2);
  EXPECT_EQ(rows(taken), (Rows{6, 7}));
  EXPECT_EQ(taken.left_out.size(), 4u);
  EXPECT_EQ(queue.counts().stale, 2);
}

TEST_F(Groups, RestoredGiveTheSameGroups) {
  const GroupQueueOptions options{.groups = 3, .depth = 1, .round = 8};
  GroupQueue queue(options);
  take(queue, 0);
  const std::string saved = dump_json(queue.state());
  GroupQueue other(options);
  other.restore(parse_json(saved, "state"));
  EXPECT_EQ(dump_json(other.state()), saved);
  const TakenGroups a = take(queue, 1), b = take(other, 1);
  ASSERT_EQ(rows(a), rows(b));
  for (size_t g = 0; g < a.groups.size(); ++g) {
    for (size_t s = 0; s < a.groups[g].size(); ++s) {
      const Rollout &x = *a.groups[g][s], &y = *b.groups[g][s];
      EXPECT_EQ(x.logprobs, y.logprobs);
      EXPECT_EQ(x.ids, y.ids);
      EXPECT_EQ(*x.prompt_ids, *y.prompt_ids);
      EXPECT_EQ(x.text, y.text);
      EXPECT_EQ(x.prompt_text, y.prompt_text);
      EXPECT_EQ(x.reward, y.reward);
      EXPECT_EQ(x.parts, y.parts);
      EXPECT_EQ(x.version, y.version);
    }
  }
  EXPECT_EQ(dump_json(queue.state()), dump_json(other.state()));
}

TEST_F(Groups, AStreakOfEqualRewardsIsSavedAndEndsWithItsLikelyCause) {
  rewards_ = {{0, 1}, {0, 0}, {0, 0}, {0, 0}};
  GroupQueue queue({.groups = 1, .max_attempts = 4});
  take(queue);
  EXPECT_EQ(rows(take(queue)), (Rows{4})) << "three in a row are allowed";
  rewards_ = {{0, 0}};
  const std::string before = dump_json(queue.state());
  const std::string error = error_of([&] { take(queue); });
  EXPECT_NE(error.find("4 groups in a row have equal rewards"), std::string::npos) << error;
  EXPECT_NE(error.find("of 9 groups sampled in this loop 2 were valid and 7 had zero variance"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("the mean reward of the last 4 is 0. Likely cause: no answer earns"),
            std::string::npos)
      << error;
  EXPECT_EQ(dump_json(queue.state()), before) << "a failed call changes nothing";
  const auto cause = [&](std::vector<std::vector<double>> rewards) {
    rewards_ = std::move(rewards);
    GroupQueue fresh({.groups = 1, .max_attempts = 4});
    return error_of([&] { take(fresh); });
  };
  EXPECT_NE(cause({{1, 1}}).find("every answer earns 1: the prompts are too easy"),
            std::string::npos);
  EXPECT_NE(cause({{1, 1}, {0, 0}}).find("rewards go from 0 to 1 between prompts"),
            std::string::npos);
  EXPECT_NE(cause({{}}).find("every reward failed"), std::string::npos);
}

TEST_F(Groups, ThatWereTakenMayChangeWithoutAnEffectOnASavedQueue) {
  rewards_ = {{0, 1}};
  GroupQueue queue({.groups = 2, .depth = 1});
  take(queue);
  const GroupQueue begin = queue;
  const std::string saved = dump_json(begin.state());
  for (const RolloutList& group : take(queue).groups) {
    for (const auto& one : group) {
      *one->reward += 1;
      one->advantage = 1;
      one->trained = true;
    }
  }
  EXPECT_EQ(dump_json(begin.state()), saved);
}

TEST_F(Groups, TheErrorOfEqualRewardsShowsAnAnswer) {
  rewards_ = {{1, 1}};
  GroupQueue queue({.groups = 1, .max_attempts = 2});
  const std::string error = error_of([&] { take(queue); });
  EXPECT_NE(
      error.find("\n  an answer of the last group: \"\\\"quoted\\\" \\n\"\n  to the prompt: "),
      std::string::npos)
      << error;
}

TEST_F(Groups, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const GroupQueueOptions& options) {
    return error_of([&] { GroupQueue queue(options); });
  };
  EXPECT_EQ(refused({.groups = 0}), "groups is 0, wanted 1 or more");
  EXPECT_EQ(refused({.depth = -1}), "depth is -1, wanted 0 or more");
  EXPECT_EQ(refused({.max_attempts = 0}), "max_attempts is 0, wanted 1 or more");
  EXPECT_EQ(refused({.eps = NAN}), "eps is nan, wanted 0 or more");
}

}  // namespace xrun::group_queue_test
