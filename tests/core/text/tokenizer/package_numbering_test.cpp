#include "core/text/tokenizer/package_numbering.h"

#include <gtest/gtest.h>

namespace xrun::package_numbering_test {
namespace {

// Of a vocabulary of a, b, c.
std::string notice_of(std::vector<AddedToken> added) {
  Vocabulary vocabulary;
  for (int32_t id = 0; id < 3; ++id) vocabulary.add(std::string(1, char('a' + id)), id);
  vocabulary.finish("test");
  return package_numbering(added, vocabulary);
}

TEST(PackageNumbering, IdsWithoutGapsAreTheFiles) {
  EXPECT_EQ(notice_of({{.id = 3, .content = "<x>"}, {.id = 4, .content = "<y>"}}), "");
  EXPECT_EQ(notice_of({{.id = 1, .content = "b"}, {.id = 3, .content = "<x>"}}), "");
  EXPECT_EQ(notice_of({}), "");
}

TEST(PackageNumbering, AGapIsSaidWithBothIds) {
  EXPECT_EQ(notice_of({{.id = 10, .content = "<x>"}}),
            "the added token \"<x>\" has the id 10 in tokenizer.json, which is kept; transformers "
            "gives it 3");
  EXPECT_EQ(notice_of({{.id = 10, .content = "<x>"}, {.id = 20, .content = "<y>"}}),
            "the added token \"<x>\" has the id 10 in tokenizer.json, which is kept; transformers "
            "gives it 3 (and 1 more)");
}

}  // namespace
}  // namespace xrun::package_numbering_test
