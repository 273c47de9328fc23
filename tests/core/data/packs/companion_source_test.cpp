// Companions of packs: which chunks are valid, how they are numbered, and that no packing changes
// them.

#include "core/data/packs/companion_source.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/data/packs/data_set.h"
#include "tests/core/data/rows/pair_fixture.h"
#include "tests/error_of.h"

namespace xrun::companion_source_test {
namespace {

using Chunk = CompanionTokens::Chunk;

// Two segments of 5 and 4 tokens; the third token of the first is not trained, and the last of the
// second has the weight 0.
PackedBatch two_segments() {
  PackedBatch batch;
  batch.append({.row_id = 0, .segment_id = 0}, {1, 2, 3, 4, 5}, {0, 1, 0, 1, 1});
  batch.append({.row_id = 1, .segment_id = 1, .weight = 0.5f}, {6, 7, 8, 9}, {0, 1, 1, 1},
               {1, 1, 1, 0});
  return batch;
}

CompanionTokens document(std::vector<int32_t> ids, std::vector<Chunk> chunks) {
  CompanionTokens out;
  out.ids = std::move(ids);
  out.chunks = std::move(chunks);
  return out;
}

TEST(Companions, OnlyValidChunksAreNumberedAndHaveRows) {
  PackedBatch batch = two_segments();
  CompanionTokens first =
      document({50, 51, 52, 53}, {{0, 1, 0, 1}, {1, 2, 1, 2}, {2, 3, 2, 3}, {3, 5, 3, 4}});
  first.wrong = 2;
  first.one_sided = 3;
  // The first chunk has only the teacher's token 0, which nothing predicts; the last only a row of
  // weight 0.
  add_companion(batch, {first, document({60, 61, 62}, {{1, 2, 0, 1}, {2, 3, 1, 2}, {3, 4, 2, 3}})},
                "teacher", 0.25);
  batch.validate(100);
  EXPECT_EQ(batch.chunk, (std::vector<int32_t>{0, 1, 1, -1, 2, -1}));
  const CompanionPack& companion = *batch.companion;
  EXPECT_EQ(companion.tokens, (std::vector<int32_t>{50, 51, 52, 53, 60, 61, 62}));
  EXPECT_EQ(companion.position_ids, (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2}));
  EXPECT_EQ(companion.cu_seqlens, (std::vector<int32_t>{0, 4, 7}));
  EXPECT_EQ(companion.hidden, (std::vector<int32_t>{0, 2, 4}));
  EXPECT_EQ(companion.target, (std::vector<int32_t>{51, 53, 61}));
  EXPECT_EQ(companion.chunk, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(companion.fingerprint, "teacher");
  EXPECT_EQ(batch.alignment.chunks, 3);
  EXPECT_EQ(batch.alignment.wrong, 2);
  EXPECT_EQ(batch.alignment.one_sided, 3);
  EXPECT_EQ(batch.alignment.tokens, 5);
  EXPECT_EQ(batch.alignment.covered, 4);
  EXPECT_EQ(batch.alignment.seconds, 0.25);
}

// The first chunk holds token 0, the second an untrained one, the third begins with the teacher's
// token 0, the last ends with a token of weight 0.
TEST(Companions, AChunkWithATokenThatNothingTrainsIsInvalid) {
  PackedBatch batch = two_segments();
  add_companion(batch,
                {document({50, 51, 52}, {{0, 2, 1, 2}, {2, 5, 2, 3}}),
                 document({60, 61, 62}, {{1, 2, 0, 2}, {2, 4, 2, 3}})},
                "teacher", 0);
  batch.validate(100);
  EXPECT_EQ(batch.chunk, (std::vector<int32_t>{-1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(batch.alignment.chunks, 0);
  EXPECT_EQ(batch.alignment.invalid, 4);
  EXPECT_EQ(batch.alignment.covered, 0);
  EXPECT_TRUE(batch.companion->hidden.empty());
}

TEST(Companions, ASegmentEndsWhereTheTeacherCannotReadOn) {
  PackedBatch batch = two_segments();
  batch.row_streams["old_logprob"] = {1, 2, 3, 4, 5, 6};
  CompanionTokens first = document({50, 51}, {{1, 2, 1, 2}});
  first.covered = 3;
  CompanionTokens second = document({60}, {});
  second.covered = 0;
  add_companion(batch, {first, second}, "teacher");
  batch.validate(100);
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{1, 2, 3, 6})) << "a segment keeps one token";
  EXPECT_EQ(batch.cu_seqlens, (std::vector<int32_t>{0, 3, 4}));
  EXPECT_EQ(batch.position_ids, (std::vector<int32_t>{0, 1, 2, 0}));
  EXPECT_EQ(batch.rows.target, (std::vector<int32_t>{2}));
  EXPECT_EQ(batch.row_streams.at("old_logprob"), (std::vector<float>{1}));
  EXPECT_EQ(batch.chunk, (std::vector<int32_t>{0}));
  EXPECT_EQ(batch.weight, (std::vector<float>{1, 0})) << "nothing of the second is trained";
  EXPECT_EQ(batch.alignment.tokens, 5);
  EXPECT_EQ(batch.alignment.covered, 1);
  EXPECT_EQ(batch.alignment.cut, 4) << "a token of weight 0 loses nothing";
}

TEST(Companions, ACutChangesNoWeightOfItsNeighbours) {
  PackedBatch batch = two_segments();
  batch.append({.row_id = 2, .segment_id = 2}, {10, 11}, {0, 0});  // nothing of it is trained
  CompanionTokens first = document({50, 51}, {});
  first.covered = 1;
  add_companion(batch, {first, document({60}, {}), document({70}, {})}, "teacher");
  EXPECT_EQ(batch.weight, (std::vector<float>{0, 0.5f, 1}));
}

TEST(Companions, ASegmentThatIsCoveredStaysWhole) {
  PackedBatch batch = two_segments();
  CompanionTokens first = document({50, 51}, {{1, 2, 1, 2}});
  first.covered = 5;
  add_companion(batch, {first, document({60}, {})}, "teacher");
  EXPECT_EQ(batch.tokens, two_segments().tokens);
  EXPECT_EQ(batch.alignment.cut, 0);
}

TEST(Companions, AChunkOutOfItsDocumentIsRefused) {
  PackedBatch batch = two_segments();
  const CompanionTokens good = document({60}, {});
  EXPECT_EQ(error_of([&] {
              add_companion(batch, {document({50, 51}, {{1, 2, 1, 3}}), good}, "t");
            }),
            "companion: a chunk of segment 0 has the teacher tokens [1, 3), wanted a range in [0, "
            "2)");
  EXPECT_EQ(error_of([&] {
              add_companion(batch, {document({50, 51}, {{1, 3, 0, 1}, {2, 4, 1, 2}}), good}, "t");
            }),
            "companion: a chunk of segment 0 has the student tokens [2, 4), wanted a range in [3, "
            "5)");
  EXPECT_EQ(error_of([&] { add_companion(batch, {good}, "t"); }),
            "companion: 1 documents for 2 segments");
  EXPECT_EQ(error_of([&] {
              add_companion(batch, {good, document({}, {})}, "t");
            }),
            "companion: segment 1 has no tokens");
}

TEST(Companions, ValidateNamesWhatDiffersFromThePack) {
  PackedBatch batch = two_segments();
  add_companion(batch, {document({50, 51}, {{1, 2, 1, 2}}), document({60, 61}, {{1, 2, 1, 2}})},
                "t");
  batch.validate(100);
  const auto broken = [&](const auto& change) {
    PackedBatch copy = batch;
    auto companion = std::make_shared<CompanionPack>(*batch.companion);
    change(copy, *companion);
    copy.companion = companion;
    return error_of([&] { copy.validate(100); });
  };
  EXPECT_EQ(broken([](PackedBatch&, CompanionPack& c) {
              c.cu_seqlens = {0, 4};
            }),
            "batch: companion.cu_seqlens has 2 entries, S + 1 is 3");
  EXPECT_EQ(broken([](PackedBatch&, CompanionPack& c) { c.target[1] = 60; }),
            "batch: companion.target[1] is 60, but token 3 is 61");
  EXPECT_EQ(broken([](PackedBatch&, CompanionPack& c) { c.hidden[1] = 0; }),
            "batch: companion.hidden[1] is 0, wanted a slot before the last of segment 1");
  EXPECT_EQ(broken([](PackedBatch&, CompanionPack& c) {
              c.chunk = {0, 2};
            }),
            "batch: companion.chunk[1] is 2, wanted 0 or 1 of 2 chunks");
  EXPECT_EQ(broken([](PackedBatch&, CompanionPack& c) { c.tokens[2] = -1; }),
            "batch: companion.tokens[2] is -1, wanted an id >= 0");
  EXPECT_EQ(broken([](PackedBatch& b, CompanionPack&) { b.chunk[3] = 2; }),
            "batch: chunk[3] is 2, wanted 0 or 1: beside a companion the chunks are numbered in "
            "the order of their rows");
  EXPECT_EQ(broken([](PackedBatch& b, CompanionPack&) { b.chunk[3] = -1; }),
            "batch: companion.chunk[1] is 1, wanted 0 or 1 of 1 chunks");
}

// Every token of a document is a chunk of its own, of two tokens of the teacher.
class Doubled : public CompanionSource {
 public:
  std::vector<CompanionTokens> align(const std::vector<Document>& documents) const override {
    std::vector<CompanionTokens> out;
    for (const Document& given : documents) {
      CompanionTokens& one = out.emplace_back();
      for (int32_t i = 0; i < std::ssize(given.ids); ++i) {
        const int32_t id = given.ids[static_cast<size_t>(i)];
        one.ids.insert(one.ids.end(), {2 * id, 2 * id + 1});
        one.chunks.push_back({i, i + 1, 2 * i, 2 * i + 2});
      }
    }
    return out;
  }
  const std::string& fingerprint() const override { return name_; }

 private:
  std::string name_ = "doubled";
};

class AlignedSet : public PairFixture {
 protected:
  // Documents of 2 to 9 tokens.
  DataSet documents() {
    std::string rows;
    for (int row = 0; row < 12; ++row) {
      rows += "{\"input_ids\":[1";
      for (int i = 0; i <= row % 8; ++i) rows += "," + std::to_string(10 * row + i);
      rows += "]}\n";
    }
    DataOptions opened = options(rows, "tokens.jsonl");
    opened.kind = RowKind::kTokens;
    return DataSet::open(opened, tokenizer(), nullptr);
  }
  static std::vector<int64_t> units(const DataSet& set) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < set.size(); ++i) ids.push_back(set.unit(i));
    return ids;
  }
  // One entry per chunk: the row of the set, the student's targets, the teacher's.
  using Chunks = std::multiset<std::tuple<int64_t, std::vector<int32_t>, std::vector<int32_t>>>;
  static Chunks chunks(const std::vector<PackedBatch>& packs) {
    Chunks all;
    for (const PackedBatch& pack : packs) {
      std::map<int32_t, std::tuple<int64_t, std::vector<int32_t>, std::vector<int32_t>>> of;
      for (size_t r = 0; r < pack.chunk.size(); ++r) {
        if (pack.chunk[r] < 0) continue;
        auto& [row, student, teacher] = of[pack.chunk[r]];
        row = pack.row_id[static_cast<size_t>(pack.rows.segment[r])];
        student.push_back(pack.rows.target[r]);
      }
      for (size_t r = 0; r < pack.companion->chunk.size(); ++r) {
        std::get<2>(of[pack.companion->chunk[r]]).push_back(pack.companion->target[r]);
      }
      for (auto& [number, chunk] : of) all.insert(std::move(chunk));
    }
    return all;
  }
};

TEST_F(AlignedSet, ChunksDoNotDependOnThePacks) {
  const DataSet set = documents().with_companion(std::make_shared<Doubled>());
  const Chunks whole = chunks(set.pack(units(set), 1000));
  EXPECT_GT(whole.size(), 30u);
  EXPECT_EQ(chunks(set.pack(units(set), 10)), whole);
  const auto [train, valid] = set.split(0.25);
  Chunks halves = chunks(train.pack(units(train), 20));
  halves.merge(chunks(valid.pack(units(valid), 20)));
  EXPECT_EQ(halves, whole);
  EXPECT_NE(set.canonical_pack(3, 100).companion, nullptr);
  EXPECT_EQ(documents().pack({0}, 100)[0].companion, nullptr) << "the set itself is not aligned";
}

TEST_F(AlignedSet, AWindowHasTheCompanionOfItsParts) {
  const DataSet set = documents().with_companion(std::make_shared<Doubled>());
  const DataSet windows = set.in_windows(7);
  size_t rows = 0, targets = 0;
  for (const PackedBatch& pack : windows.pack(units(windows), 50)) {
    ASSERT_NE(pack.companion, nullptr);
    rows += pack.rows.hidden.size();
    targets += pack.companion->hidden.size();
  }
  EXPECT_EQ(targets, 2 * rows);
}

TEST_F(AlignedSet, WithATeacherOfTheSameVocabularyEachLossRowIsAChunk) {
  const DataSet set = documents().with_row_chunks(0);
  const PackedBatch pack = set.pack({5}, 1000)[0];
  EXPECT_EQ(pack.companion, nullptr);
  EXPECT_EQ(pack.chunk, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(pack.alignment.covered, 6);
}

TEST_F(AlignedSet, ATeacherOfTheSameVocabularyCutsRowsAtItsLimit) {
  const DataSet set = documents().with_row_chunks(4);
  const PackedBatch pack = set.pack({5}, 1000)[0], whole = documents().pack({5}, 1000)[0];
  EXPECT_EQ(pack.tokens, std::vector<int32_t>(whole.tokens.begin(), whole.tokens.begin() + 4));
  EXPECT_EQ(pack.chunk, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(pack.alignment.cut, 3);
  EXPECT_EQ(pack.alignment.tokens, 6);
}

}  // namespace
}  // namespace xrun::companion_source_test
