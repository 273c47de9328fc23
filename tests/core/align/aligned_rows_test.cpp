// Cached companions are those that a fresh alignment gives, whatever happened to the cache.

#include "core/align/aligned_rows.h"

#include <gtest/gtest.h>

#include "core/base/file_fault.h"
#include "core/base/hash.h"
#include "tests/core/align/two_tokenizers.h"
#include "tests/error_of.h"

namespace xrun::aligned_rows_test {
namespace {

class AlignedRowsTest : public TwoTokenizers {
 protected:
  AlignedRowsTest() {
    for (int i = 0; i < 40; ++i) {
      ids_.push_back(pieces()
                         ->encode("Town " + std::to_string(i * 37) + " lies on the 水 hill" +
                                  std::string(static_cast<size_t>(i), '!'))
                         .ids);
    }
    // A chunk of more than 128 tokens, and a document of one token.
    ids_.push_back(std::vector<int32_t>(1, *pieces()->eos_id()));
    for (size_t i = 0; i < ids_.size(); ++i) {
      documents_.push_back({static_cast<int64_t>(i), 0, ids_[i]});
    }
  }
  std::shared_ptr<const CompanionMaker> maker(int64_t limit = 0, int workers = 0) const {
    return std::make_shared<const TextCompanions>(
        std::make_shared<const Retokenizer>(pieces(), bytes(), RetokenizerOptions{.limit = limit}),
        workers);
  }
  std::vector<CompanionTokens> fresh() const {
    const ScratchFolder empty;
    return AlignedRows(maker(0, 1), empty.path()).align(documents_);
  }
  std::filesystem::path values() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      return entry.path() / "values.bin";
    }
    return {};
  }

  ScratchFolder folder_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<CompanionSource::Document> documents_;
};

TEST_F(AlignedRowsTest, CachedIsFresh) {
  const std::vector<CompanionTokens> want = fresh();
  {
    const AlignedRows first(maker(0, 3), folder_.path());
    EXPECT_EQ(first.align(documents_), want);
    EXPECT_EQ(first.counts().computed, 41);
  }
  const AlignedRows second(maker(), folder_.path());
  EXPECT_EQ(second.align(documents_), want);
  EXPECT_EQ(second.counts().cached, 41);
  EXPECT_EQ(second.counts().computed, 0);
}

TEST_F(AlignedRowsTest, OtherTokensOfARowAreAlignedAgain) {
  const AlignedRows rows(maker(), folder_.path());
  rows.align(documents_);
  const std::vector<int32_t> other = pieces()->encode("another text").ids;
  const std::vector<CompanionTokens> got = rows.align({{0, 0, other}});
  EXPECT_EQ(bytes()->decode(got[0].ids), "another text");
  EXPECT_EQ(rows.counts().computed, 42);
}

TEST_F(AlignedRowsTest, DifferentLimitsHaveDifferentSidecars) {
  AlignedRows(maker(), folder_.path()).align(documents_);
  const AlignedRows shorter(maker(9), folder_.path());
  const std::vector<CompanionTokens> made = shorter.align(documents_);
  for (const CompanionTokens& one : made) EXPECT_LE(one.ids.size(), 9u);
  EXPECT_EQ(shorter.counts().cached, 0);
  EXPECT_GT(made[0].covered, 0);
  EXPECT_EQ(shorter.align(documents_), made) << "the cut is stored, too";
}

TEST_F(AlignedRowsTest, AKillAtAnyByteLosesOnlyWhatIsAlignedAgain) {
  const std::vector<CompanionTokens> want = fresh();
  AlignedRows(maker(), folder_.path()).align(documents_);
  const std::string whole = text_of(values());
  for (size_t size = 0; size < whole.size(); size += 101) {
    put_text(values(), whole.substr(0, size));
    EXPECT_EQ(AlignedRows(maker(), folder_.path()).align(documents_), want) << size;
    EXPECT_EQ(text_of(values()).size(), whole.size()) << size;
  }
}

TEST_F(AlignedRowsTest, ALongChunkComesBack) {
  // 200 spaces are one piece for neither; the bytes of one long word are one chunk each.
  const std::vector<CompanionTokens> want = fresh();
  std::vector<int32_t> gap(300, 0);
  for (size_t i = 0; i < gap.size(); ++i) gap[i] = 0x80;  // bytes without a partner
  gap.push_back('a');
  const CompanionSource::Document document{7, 0, gap};
  const auto reversed = std::make_shared<const TextCompanions>(
      std::make_shared<const Retokenizer>(bytes(), pieces()));
  const auto once = AlignedRows(reversed, folder_.path()).align({document});
  EXPECT_EQ(AlignedRows(reversed, folder_.path()).align({document}), once);
  ASSERT_EQ(once[0].chunks.size(), 1u);
  EXPECT_EQ(once[0].chunks[0].s_begin, 300);
  EXPECT_EQ(once[0].one_sided, 300);
}

TEST_F(AlignedRowsTest, AFullDiskIsAnErrorOfTheFlush) {
  const AlignedRows rows(maker(), folder_.path());
  rows.align(documents_);
  set_file_fault("write", 1);
  EXPECT_NE(error_of([&] { rows.flush(); }), "");
  set_file_fault("", 0);
  EXPECT_EQ(rows.align(documents_), fresh());
}

TEST_F(AlignedRowsTest, AnEntryThatNoAlignmentMakesIsAnError) {
  {
    const AlignedRows rows(maker(), folder_.path());
    rows.align(documents_);
  }
  // The key of the same sidecar, with an id beyond the teacher's vocabulary.
  SidecarKey key;
  key.name = "companions";
  key.type = ColumnType::kI32;
  key.width = 0;
  key.made_by = maker()->made_by();
  const std::vector<int32_t> other = pieces()->encode("other").ids;
  Sidecar sidecar(folder_.path(), key);
  const uint64_t stamp =
      hash_u64({reinterpret_cast<const char*>(other.data()), other.size() * sizeof(int32_t)});
  sidecar.add<int32_t>({0, 0, stamp}, std::vector<int32_t>{1, 9999, 0, 0});
  sidecar.flush();
  const std::string error = error_of([&] {
    AlignedRows(maker(), folder_.path()).align({{0, 0, other}});
  });
  EXPECT_NE(error.find("values.bin: holds an entry that no alignment makes; remove "),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace xrun::aligned_rows_test
