#include "core/data/cache/key_difference.h"

#include "tests/core/data/rows/pair_fixture.h"

namespace xrun::key_difference_test {
namespace {

using KeyDifference = PairFixture;

TEST_F(KeyDifference, NamesSourceAndFieldOfASet) {
  DataOptions asked = options(numbered_pairs(4));
  const Json saved = open(asked).key_documents();
  EXPECT_EQ(key_difference(saved, open(asked).key_documents()), "");
  asked.settings.max_length = 512;
  EXPECT_EQ(key_difference(saved, open(asked).key_documents()), "data[1].max_length: 0 -> 512");
}

TEST_F(KeyDifference, ChangedBytesOfAFileAreNamedByTheFile) {
  const Json saved = open(numbered_pairs(4)).key_documents();
  const std::string text = key_difference(saved, open(numbered_pairs(5)).key_documents());
  EXPECT_TRUE(text.starts_with("data[1].files: ")) << text;
  EXPECT_LT(text.size(), 200u);
}

TEST_F(KeyDifference, FieldsThatOneSideLacksAndOtherNumbersOfSources) {
  const Json from = parse_json(R"([{"a":1,"b":2,"c":[1]}])", "");
  const Json to = parse_json(R"([{"b":2,"a":2,"d":null}])", "");
  EXPECT_EQ(key_difference(from, to),
            "data[1].a: 1 -> 2\ndata[1].c: [1] -> (absent)\ndata[1].d: (absent) -> null");
  EXPECT_EQ(key_difference(from, Json::array()), "data: [{\"a\":1,\"b\":2,\"c\":[1]}] -> []");
  EXPECT_NE(key_difference(Json(), to), "");  // a run saved before there were documents
}

}  // namespace
}  // namespace xrun::key_difference_test
