// A folded pack is the smallest tree that `min_run` allows and holds every sample's path.

#include "core/prefix/folded_pack.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/base/philox.h"
#include "tests/scratch_folder.h"

namespace xrun::folded_pack_test {
namespace {

using Ids = std::vector<int32_t>;

// A pack of these segments; tokens from `prompt` on are trained.
PackedBatch pack_of(const std::vector<Ids>& segments, size_t prompt) {
  PackedBatch batch;
  for (const Ids& ids : segments) {
    std::vector<uint8_t> trained(ids.size(), 0);
    for (size_t i = prompt; i < ids.size(); ++i) trained[i] = 1;
    PackedBatch::Segment segment;
    segment.segment_id = batch.segment_count();
    batch.append(segment, ids, trained);
  }
  batch.validate(1 << 30);
  return batch;
}

FoldedPack checked_fold(const PackedBatch& batch, const FoldOptions& options = {}) {
  FoldedPack fold = fold_pack(batch, options);
  fold.validate(batch);
  return fold;
}

Ids letters(const std::string& text) { return Ids(text.begin(), text.end()); }

PackedBatch four_segments() {
  return pack_of({letters("abcde"), letters("abcf"), letters("abghi"), letters("abghjkl")}, 2);
}

TEST(FoldedPack, GivesTheTreeOfFourSamples) {
  const PackedBatch batch = four_segments();
  const FoldedPack fold = checked_fold(batch, {.min_run = 1});
  EXPECT_EQ(fold.tokens, letters("abcdefghijkl"));
  EXPECT_EQ(fold.node_begin, (Ids{0, 2, 3, 5, 6, 8, 9, 12}));
  EXPECT_EQ(fold.parent, (Ids{-1, 0, 1, 1, 0, 4, 4}));
  EXPECT_EQ(fold.position_ids, (Ids{0, 1, 2, 3, 4, 3, 2, 3, 4, 4, 5, 6}));
  EXPECT_EQ(fold.prev, (Ids{-1, 0, 1, 2, 3, 2, 1, 6, 7, 7, 9, 10}));
  EXPECT_EQ(fold.end, (Ids{12, 12, 6, 5, 5, 6, 12, 12, 9, 12, 12, 12}));
  EXPECT_EQ(fold.segments, (Ids{4, 2, 1, 1, 2, 1, 1}));
  EXPECT_EQ(fold.leaf, (Ids{2, 3, 5, 6}));
  EXPECT_EQ(fold.flat_of, (Ids{0, 1, 2, 3, 4, 0, 1, 2, 5, 0, 1, 6, 7, 8, 0, 1, 6, 7, 9, 10, 11}));
  EXPECT_EQ(fold.hidden, (Ids{1, 2, 3, 6, 7, 9, 10}));
  EXPECT_EQ(fold.edge_hidden, (Ids{0, 0, 1, 1, 2, 3, 4, 4, 5, 6}));
  EXPECT_EQ(fold.edge_target, letters("cgdfehijkl"));
  EXPECT_EQ(fold.row_edge, (Ids{0, 2, 4, 0, 3, 1, 5, 6, 1, 5, 7, 8, 9}));
  EXPECT_EQ(fold.ratio(), 21.0 / 12);
}

TEST(FoldedPack, WithoutSharedPrefixesIsThePackItself) {
  const PackedBatch batch = pack_of({{7, 8, 9}, {5, 6}, {6, 6, 6, 1}, {1}}, 1);
  for (const int64_t min_run : {1, 64}) {
    const FoldedPack fold = checked_fold(batch, {.min_run = min_run});
    EXPECT_EQ(fold.tokens, batch.tokens);
    EXPECT_EQ(fold.position_ids, batch.position_ids);
    EXPECT_EQ(fold.node_begin, batch.cu_seqlens);
    EXPECT_EQ(fold.parent, Ids(4, -1));
    EXPECT_EQ(fold.flat_of, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(fold.hidden, batch.rows.hidden);
    EXPECT_EQ(fold.edge_target, batch.rows.target);
    EXPECT_EQ(fold.ratio(), 1);
  }
  EXPECT_EQ(checked_fold(PackedBatch()).ratio(), 1);
}

TEST(FoldedPack, SegmentsMayEndInsideTheTreeOrBeEqual) {
  const PackedBatch batch = pack_of({{1, 2, 3, 4}, {1, 2}, {1, 2, 3, 4}, {1, 2, 3}}, 1);
  const FoldedPack fold = checked_fold(batch, {.min_run = 1});
  EXPECT_EQ(fold.tokens, (Ids{1, 2, 3, 4}));
  EXPECT_EQ(fold.node_begin, (Ids{0, 2, 3, 4}));
  EXPECT_EQ(fold.leaf, (Ids{2, 0, 2, 1}));
  EXPECT_EQ(fold.segments, (Ids{4, 3, 2}));
  EXPECT_EQ(fold.edge_target, (Ids{2, 3, 4}));
  EXPECT_EQ(fold.row_edge, (Ids{0, 1, 2, 0, 0, 1, 2, 0, 1}));
}

TEST(FoldedPack, RunsShorterThanMinRunStaySeparate) {
  // Three tokens are shared by the first two segments, two by all.
  const PackedBatch batch = pack_of({{1, 2, 3, 4}, {9}, {1, 2, 3, 5}, {1, 2, 6}}, 1);
  EXPECT_EQ(checked_fold(batch, {.min_run = 2}).tokens, (Ids{1, 2, 3, 4, 3, 5, 6, 9}));
  EXPECT_EQ(checked_fold(batch, {.min_run = 3}).tokens, (Ids{1, 2, 3, 4, 5, 9, 1, 2, 6}));
  const FoldedPack plain = checked_fold(batch, {.min_run = 4});
  EXPECT_EQ(plain.tokens, batch.tokens);
  EXPECT_EQ(plain.parent, Ids(4, -1));
}

TEST(FoldedPack, EqualSegmentsShorterThanMinRunStaySeparate) {
  const PackedBatch batch = pack_of({{1, 2}, {1, 2}, {1, 2, 3}}, 1);
  EXPECT_EQ(checked_fold(batch, {.min_run = 3}).tokens, batch.tokens);
}

TEST(FoldedPack, ChoosesTheTreeWithTheFewestTokens) {
  // A header of 4 shared by all, then two groups of three that share 3 more: sharing the header
  // leaves runs of 3 below it, sharing both 7 at once saves 28 tokens instead of 20.
  std::vector<Ids> segments;
  for (int32_t group = 0; group < 2; ++group) {
    for (int32_t s = 0; s < 3; ++s) {
      segments.push_back({1, 1, 1, 1, 10 + group, 2, 2, 20 + 3 * group + s});
    }
  }
  const PackedBatch batch = pack_of(segments, 7);
  EXPECT_EQ(checked_fold(batch, {.min_run = 4}).token_count(), 48 - 28);
  EXPECT_EQ(checked_fold(batch, {.min_run = 3}).token_count(), 48 - 20 - 12);
}

TEST(FoldedPack, SiblingsThatBeginAlikeHaveOneEdge) {
  // The first and the last segment continue with the same token, a run too short to share.
  const PackedBatch batch = pack_of({{1, 2, 3, 7, 4}, {1, 2, 3, 8}, {1, 2, 3, 7, 5}}, 3);
  const FoldedPack fold = checked_fold(batch, {.min_run = 2});
  EXPECT_EQ(fold.tokens, (Ids{1, 2, 3, 7, 4, 8, 7, 5}));
  EXPECT_EQ(fold.edge_target, (Ids{7, 8, 4, 5}));
  EXPECT_EQ(fold.row_edge, (Ids{0, 2, 1, 0, 3}));
}

TEST(FoldedPack, SegmentsOfDifferentKeysShareNothing) {
  const PackedBatch batch = pack_of({{1, 2, 3}, {1, 2, 4}, {1, 2, 5}}, 1);
  const FoldedPack fold = checked_fold(batch, {.min_run = 1, .frequency_classes = {4, 9, 4}});
  EXPECT_EQ(fold.tokens, (Ids{1, 2, 3, 5, 1, 2, 4}));
  EXPECT_EQ(fold.parent, (Ids{-1, 0, 0, -1}));
}

TEST(FoldedPack, NamesBadOptions) {
  const PackedBatch batch = pack_of({{1, 2}}, 1);
  EXPECT_EQ(error_of([&] {
              fold_pack(batch, {.frequency_classes = {1, 2}});
            }),
            "folding: frequency_classes has 2 entries for 1 segments");
  EXPECT_EQ(error_of([&] { fold_pack(batch, {.min_run = 0}); }),
            "folding: min_run is 0, wanted at least 1");
}

TEST(FoldedPack, ValidateNamesFieldIndexAndValue) {
  const PackedBatch batch = four_segments();
  const FoldedPack good = checked_fold(batch, {.min_run = 1});
  const auto error = [&](const auto& damage) {
    FoldedPack fold = good;
    damage(fold);
    return error_of([&] { fold.validate(batch); });
  };
  EXPECT_EQ(error([](FoldedPack& fold) { fold.parent[4] = 4; }),
            "fold: parent[4] is 4, wanted -1 or a node before it");
  EXPECT_EQ(
      error([](FoldedPack& fold) { fold.parent[5] = 1; }),
      "fold: parent[5] is 1, but the subtree of node 1 has ended; nodes must nest in preorder");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.prev[5] = 6; }), "fold: prev[5] is 6, wanted 2");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.end[2] = 99; }), "fold: end[2] is 99, wanted 6");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.node_begin[1] = 0; }),
            "fold: node_begin[1] is 0, wanted more than 0");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.node_begin.back() = 13; }),
            "fold: node_begin ends with 13, F is 12");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.position_ids[6] = 6; }),
            "fold: position_ids[6] is 6, wanted 2");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.flat_of[3] = 12; }),
            "fold: flat_of[3] is 12, wanted 0 to 11");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.flat_of[3] = 5; }),
            "fold: flat_of[3] is 5, token 102 at position 3; wanted token 100 at position 3");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.leaf[0] = 3; }),
            "fold: leaf[0] is 3, the segment ends in slot 4");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.segments[1] = 3; }),
            "fold: segments[1] is 3, wanted 2");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.row_edge[0] = 1; }),
            "fold: row_edge[0] is 1, from slot 1 to token 103; wanted slot 1 to token 99");
  EXPECT_EQ(error([](FoldedPack& fold) { fold.row_edge.pop_back(); }),
            "fold: row_edge has 12 entries, R is 13");
}

TEST(RowWeights, FollowThePolicy) {
  PackedBatch batch = pack_of({{1, 2, 3, 4}, {1, 2, 3, 5}, {1, 2, 6}, {9, 8}}, 1);
  batch.rows.weight[0] = 0;  // the first segment does not train token 2
  const FoldedPack fold = checked_fold(batch, {.min_run = 1});
  EXPECT_EQ(row_weights(batch, fold, SharedRows::kPerSample), batch.rows.weight);
  const float third = 1.0f / 3;
  EXPECT_EQ(row_weights(batch, fold, SharedRows::kBranchMean),
            (std::vector<float>{0, third, third, third, third, third, third, third, 1}));
  EXPECT_EQ(row_weights(batch, fold, SharedRows::kOwnOnce),
            (std::vector<float>{0, 1, 1, 1, 0, 1, 0, 1, 1}));
}

// Random trees: segments copy a prefix of an earlier one, tokens are few, some are equal.
class RandomPacks {
 public:
  explicit RandomPacks(uint64_t seed) : seed_(seed) {}
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(philox_unit(11, seed_, draw_++, 0) * static_cast<double>(limit));
  }
  std::vector<Ids> segments() {
    std::vector<Ids> all;
    const int64_t count = 1 + below(14), vocab = 1 + below(4);
    for (int64_t s = 0; s < count; ++s) {
      Ids ids;
      if (s > 0 && below(3) > 0) {
        const Ids& from = all[static_cast<size_t>(below(s))];
        ids.assign(from.begin(), from.begin() + below(std::ssize(from) + 1));
      }
      for (int64_t n = below(8) + ids.empty(); n > 0; --n) {
        ids.push_back(static_cast<int32_t>(below(vocab)));
      }
      all.push_back(ids);
    }
    return all;
  }

 private:
  uint64_t seed_;
  uint64_t draw_ = 0;
};

TEST(FoldedPack, EqualsABruteForceTrieOn500RandomTrees) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomPacks random(seed);
    const std::vector<Ids> segments = random.segments();
    const PackedBatch batch = pack_of(segments, 1);
    const FoldedPack fold = checked_fold(batch, {.min_run = 1});
    std::set<Ids> prefixes;
    std::set<std::pair<Ids, int32_t>> edges;
    for (const Ids& ids : segments) {
      for (size_t n = 1; n <= ids.size(); ++n) {
        prefixes.emplace(ids.begin(), ids.begin() + static_cast<int64_t>(n));
        const Ids before(ids.begin(), ids.begin() + static_cast<int64_t>(n) - 1);
        if (n > 1) edges.emplace(before, ids[n - 1]);
      }
    }
    ASSERT_EQ(fold.token_count(), std::ssize(prefixes)) << "seed " << seed;
    ASSERT_EQ(std::ssize(fold.edge_target), std::ssize(edges)) << "seed " << seed;
    std::map<Ids, int32_t> slot_of;  // two tokens have one slot exactly where their prefixes agree
    for (size_t s = 0; s < segments.size(); ++s) {
      for (size_t n = 1; n <= segments[s].size(); ++n) {
        const Ids prefix(segments[s].begin(), segments[s].begin() + static_cast<int64_t>(n));
        const int32_t slot = fold.flat_of[static_cast<size_t>(batch.cu_seqlens[s]) + n - 1];
        ASSERT_EQ(slot_of.emplace(prefix, slot).first->second, slot) << "seed " << seed;
      }
    }
    // The first segments of siblings rise, and the mask k <= q < end[k] is the prefix relation.
    for (size_t q = 0; q < fold.tokens.size(); ++q) {
      std::set<int32_t> path;
      for (int32_t k = static_cast<int32_t>(q); k >= 0; k = fold.prev[static_cast<size_t>(k)]) {
        path.insert(k);
      }
      for (size_t k = 0; k <= q; ++k) {
        ASSERT_EQ(static_cast<int32_t>(q) < fold.end[k], path.count(static_cast<int32_t>(k)) == 1);
      }
    }
  }
}

// The fewest tokens over all sets of shared nodes, by trying each.
int64_t fewest_tokens(const std::vector<Ids>& segments, int64_t min_run) {
  std::map<Ids, int64_t> lists;  // through each prefix that several lists share
  for (const Ids& ids : segments) {
    for (size_t n = 1; n <= ids.size(); ++n) {
      ++lists[Ids(ids.begin(), ids.begin() + static_cast<int64_t>(n))];
    }
  }
  std::vector<Ids> nodes;  // shared prefixes that no longer prefix has the same lists as
  for (const auto& [prefix, count] : lists) {
    bool longer = false;
    for (const auto& [other, others] : lists) {
      longer |= others == count && other.size() == prefix.size() + 1 &&
                std::equal(prefix.begin(), prefix.end(), other.begin());
    }
    if (count > 1 && !longer) nodes.push_back(prefix);
  }
  if (nodes.size() > 10) return -1;
  int64_t fewest = -1;
  for (uint32_t chosen = 0; chosen < 1u << nodes.size(); ++chosen) {
    int64_t tokens = 0;
    bool legal = true;
    const auto base_of = [&](const Ids& ids, bool strict) {  // longest chosen prefix
      size_t base = 0;
      for (size_t n = 0; n < nodes.size(); ++n) {
        if (!(chosen >> n & 1) || nodes[n].size() > ids.size()) continue;
        if (strict && nodes[n].size() == ids.size()) continue;
        if (std::equal(nodes[n].begin(), nodes[n].end(), ids.begin())) {
          base = std::max(base, nodes[n].size());
        }
      }
      return static_cast<int64_t>(base);
    };
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!(chosen >> n & 1)) continue;
      const int64_t run = std::ssize(nodes[n]) - base_of(nodes[n], true);
      legal &= run >= min_run;
      tokens += run;
    }
    for (const Ids& ids : segments) tokens += std::ssize(ids) - base_of(ids, false);
    if (legal && (fewest < 0 || tokens < fewest)) fewest = tokens;
  }
  return fewest;
}

TEST(FoldedPack, HasTheFewestTokensThatMinRunAllows) {
  int compared = 0;
  for (uint64_t seed = 1000; seed < 1300; ++seed) {
    RandomPacks random(seed);
    const std::vector<Ids> segments = random.segments();
    const PackedBatch batch = pack_of(segments, 1);
    for (const int64_t min_run : {2, 3, 5}) {
      const FoldedPack fold = checked_fold(batch, {.min_run = min_run});
      for (size_t n = 0; n < fold.parent.size(); ++n) {
        const int64_t run = fold.node_begin[n + 1] - fold.node_begin[n];
        ASSERT_TRUE(fold.segments[n] == 1 || run >= min_run) << "seed " << seed;
      }
      const int64_t fewest = fewest_tokens(segments, min_run);
      if (fewest < 0) continue;
      ++compared;
      ASSERT_EQ(fold.token_count(), fewest) << "seed " << seed << ", min_run " << min_run;
    }
  }
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace xrun::folded_pack_test
