// The prefixes that packs of a step share.

#include "core/prefix/shared_prefix.h"

#include <gtest/gtest.h>

#include "tests/core/data/packs/prompted_sequence.h"

namespace xrun::shared_prefix_test {

namespace {

using Ids = std::vector<int32_t>;

PackedBatch pack(const std::vector<Ids>& sequences) {
  PackedBatch pack;
  for (const Ids& ids : sequences) {
    std::vector<uint8_t> trained(ids.size(), 1);
    trained.front() = 0;
    pack.append({}, ids, trained);
  }
  return pack;
}

std::vector<SharedPrefix> found(const std::vector<PackedBatch>& packs,
                                FoldMode mode = FoldMode::kAuto) {
  std::vector<const PackedBatch*> all;
  for (const PackedBatch& one : packs) all.push_back(&one);
  FoldSettings settings;
  settings.mode = mode;
  return shared_prefixes(all, settings);
}

}  // namespace

TEST(SharedPrefixes, HaveOneClassIfTheirSequencesHaveEqualFrequencies) {
  FoldSettings settings;
  const auto prefix =
      found({pack({prompted_sequence(2, 100, 10)}), pack({prompted_sequence(2, 100, 30)})}).at(0);
  EXPECT_TRUE(prefix.has_one_class(settings));
  settings.frequency_class = [](int64_t length) { return length / 120; };
  EXPECT_FALSE(prefix.has_one_class(settings));
  settings.frequency_class = [](int64_t length) { return length / 200; };
  EXPECT_TRUE(prefix.has_one_class(settings));
}

TEST(FoldSettings, SegmentsShareWithinTheClassesOfTheirLengths) {
  const PackedBatch batch = pack({prompted_sequence(2, 100, 10), prompted_sequence(2, 100, 12),
                                  prompted_sequence(2, 100, 30), prompted_sequence(2, 100, 31)});
  FoldSettings settings;
  settings.mode = FoldMode::kAlways;
  EXPECT_EQ(fold_where_it_pays(batch, settings)->token_count(), 183);
  settings.frequency_class = [](int64_t length) { return length / 120; };
  EXPECT_EQ(fold_where_it_pays(batch, settings)->token_count(), 283);
  settings.frequency_class = [](int64_t length) { return length; };
  EXPECT_FALSE(fold_where_it_pays(batch, settings));
}

TEST(SharedPrefixes, AreFoundInConsecutivePacks) {
  const auto prefixes =
      found({pack({prompted_sequence(1, 20, 5)}),  // nothing shared
             pack({prompted_sequence(2, 100, 10), prompted_sequence(2, 100, 10)}),  // a group
             pack({prompted_sequence(2, 100, 20)}), pack({prompted_sequence(2, 100, 30)}),
             pack({prompted_sequence(3, 80, 7)}), pack({prompted_sequence(3, 80, 8)})});
  ASSERT_EQ(prefixes.size(), 2U);
  EXPECT_EQ(prefixes[0].begin, 1U);
  EXPECT_EQ(prefixes[0].end, 4U);
  EXPECT_EQ(prefixes[0].tokens, Ids(100, 2));
  EXPECT_EQ(prefixes[0].position_ids.back(), 99);
  EXPECT_EQ(prefixes[0].separate, 370);
  EXPECT_EQ(prefixes[0].together, 170);
  EXPECT_EQ(prefixes[0].shortest, 110);
  EXPECT_EQ(prefixes[0].longest, 130);
  EXPECT_EQ(prefixes[1].begin, 4U);
  EXPECT_EQ(prefixes[1].end, 6U);
  EXPECT_EQ(prefixes[1].tokens, Ids(80, 3));
}

TEST(SharedPrefixes, LeaveATokenOfEveryPackToCompute) {
  // The second pack is the prompt alone.
  const auto prefixes =
      found({pack({prompted_sequence(2, 100, 10)}), pack({prompted_sequence(2, 100, 0)})});
  ASSERT_EQ(prefixes.size(), 1U);
  EXPECT_EQ(prefixes[0].size(), 99);
}

TEST(SharedPrefixes, EndBeforeAPackThatWouldShortenThemTooMuch) {
  // All begin with the same 64 tokens; the first three share 200.
  const Ids header(64, 9);
  const auto with_header = [&](const Ids& rest) {
    Ids ids = header;
    ids.insert(ids.end(), rest.begin(), rest.end());
    return pack({ids});
  };
  std::vector<PackedBatch> packs;
  for (int i = 0; i < 3; ++i) packs.push_back(with_header(prompted_sequence(1, 136, 10)));
  packs.push_back(with_header(prompted_sequence(2, 0, 10)));
  const auto prefixes = found(packs);
  ASSERT_EQ(prefixes.size(), 1U);
  EXPECT_EQ(prefixes[0].end, 3U);
  EXPECT_EQ(prefixes[0].size(), 200);
}

TEST(SharedPrefixes, OfFewTokensAreNotHeld) {
  EXPECT_TRUE(
      found({pack({prompted_sequence(1, 63, 10)}), pack({prompted_sequence(1, 63, 10)})}).empty());
  // 64 of 2,128 tokens: less than the gate asks for, unless every prefix is to be folded.
  const std::vector<PackedBatch> long_answers{pack({prompted_sequence(1, 64, 1000)}),
                                              pack({prompted_sequence(1, 64, 1000)})};
  EXPECT_TRUE(found(long_answers).empty());
  EXPECT_EQ(found(long_answers, FoldMode::kAlways).size(), 1U);
  EXPECT_TRUE(found(long_answers, FoldMode::kNever).empty());
}

TEST(SharedPrefixes, OfEmptyPacksAreNone) {
  EXPECT_TRUE(found({}).empty());
  EXPECT_TRUE(found({PackedBatch(), PackedBatch(), pack({prompted_sequence(1, 90, 3)})}).empty());
}

}  // namespace xrun::shared_prefix_test
