#include "core/text/added_tokens.h"

#include <gtest/gtest.h>

#include "core/base/json.h"

namespace xrun {
namespace {

TEST(AddedTokens, OfTwoWithOneNormalFormTheFirstIsFound) {
  const Json json = parse_json(R"({"type": "Lowercase"})", "json");
  const auto lower = ComponentTable<Normalizer>::make(ComponentSpec(json, "test"));
  const AddedTokens tokens({{.id = 3, .content = "ABC"}, {.id = 4, .content = "abc"}}, lower.get());
  std::vector<AddedMatch> found;
  tokens.find_all(AlignedText("xabcx", 0), true, SpecialRanges(EncodeOptions()), found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, 3);
}

}  // namespace
}  // namespace xrun
