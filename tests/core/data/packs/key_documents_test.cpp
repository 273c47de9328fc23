// A resume compares the key documents of its data sets field by field.

#include "core/run/record/difference.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun::key_documents_test {
namespace {

using KeyDocuments = PairFixture;

TEST_F(KeyDocuments, DifferInTheFieldOfTheSource) {
  DataOptions asked = options(numbered_pairs(4));
  const Json saved = open(asked).key_documents();
  EXPECT_TRUE(find_differences(saved, open(asked).key_documents(), "data").empty());
  asked.settings.max_length = 512;
  EXPECT_EQ(describe_differences(find_differences(saved, open(asked).key_documents(), "data")),
            "  data.1.max_length: 0 -> 512\n");
}

TEST_F(KeyDocuments, DifferInTheFileWhoseBytesChanged) {
  const Json saved = open(numbered_pairs(4)).key_documents();
  const auto found = find_differences(saved, open(numbered_pairs(5)).key_documents(), "data");
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found[0].path.starts_with("data.1.files.1.")) << found[0].path;
}

}  // namespace
}  // namespace xrun::key_documents_test
