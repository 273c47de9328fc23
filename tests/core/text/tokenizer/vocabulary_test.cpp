// A vocabulary finds every piece by its id and every id by its piece.

#include "core/text/tokenizer/vocabulary.h"

#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"
#include "tests/scratch_folder.h"

namespace xrun::vocabulary_test {

namespace {

TEST(Vocabulary, FindsEveryPieceByIdAndIdByPiece) {
  Vocabulary vocabulary;
  std::vector<std::string> pieces;
  for (int i = 0; i < 3000; ++i) {
    pieces.push_back(std::string(size_t(i % 40), 'x') + std::to_string(i));
    vocabulary.add(pieces.back(), 2 * i);
  }
  vocabulary.finish("test");
  for (int i = 0; i < 3000; ++i) {
    EXPECT_EQ(vocabulary.find(pieces[size_t(i)]), 2 * i);
    EXPECT_EQ(vocabulary.piece(2 * i), pieces[size_t(i)]);
  }
  EXPECT_EQ(vocabulary.size(), 5999);
  EXPECT_EQ(vocabulary.count(), 3000);
  EXPECT_FALSE(vocabulary.find("absent"));
  EXPECT_FALSE(vocabulary.has(1));
  EXPECT_FALSE(vocabulary.has(-1));
}

TEST(Vocabulary, AnEmptyVocabularyFindsNothing) {
  Vocabulary vocabulary;
  EXPECT_FALSE(vocabulary.find("a"));
  vocabulary.finish("test");
  EXPECT_FALSE(vocabulary.find("a"));
  EXPECT_EQ(vocabulary.size(), 0);
}

TEST(Vocabulary, HashesOfShortPiecesDiffer) {
  std::set<uint64_t> hashes;
  for (int a = 0; a < 256; ++a) {
    hashes.insert(hash_piece(std::string(1, char(a))));
    for (int b = 0; b < 256; ++b) hashes.insert(hash_piece(std::string{char(a), char(b)}));
  }
  EXPECT_EQ(hashes.size(), 256u + 65536u);
}

}  // namespace

}  // namespace xrun::vocabulary_test
