// The page of a step's packs matches a golden file, and foreign text never becomes markup.

#include "core/console/inspect/inspected_pack.h"
#include "tests/core/console/inspect/inspect_fixture.h"
#include "tests/golden_file.h"

namespace xrun::pack_page_test {
namespace {

using PackPage = InspectFixture;

size_t count(const std::string& text, const std::string& piece) {
  size_t n = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++n;
  return n;
}

TEST_F(PackPage, MatchesTheGoldenFile) {
  std::string page = pack_page({inspect(open(weighted(hard_pairs())), 200)});
  const size_t sheet = page.find("<style>");  // which all pages share
  page.erase(sheet, page.find("</style>") - sheet);
  expect_golden("inspect/page.html", page);
}

TEST_F(PackPage, HasEveryTokenOnceExceptSharedPrompts) {
  const InspectedStep step = inspect(hard_pairs());
  size_t tokens = static_cast<size_t>(step.tokens);
  for (const InspectedPack& pack : step.packs) {
    for (size_t s = 0; s < pack.segments.size(); s += 2) {
      tokens -= shared_tokens(pack.segments[s], pack.segments[s + 1]);
    }
  }
  EXPECT_EQ(count(pack_page({step}), "<span class=\"t "), tokens);
}

TEST_F(PackPage, CountsTheRowsThatWereRepaired) {
  InspectedStep step = inspect(hard_pairs());
  step.ledger.sources[0].repaired = 321;
  EXPECT_EQ(count(pack_page({step}), "<td class=\"n\">321</td></tr>"), 1u);
}

TEST_F(PackPage, ForeignTextIsNeverMarkup) {
  InspectedStep step = inspect(
      pair_row("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&amp;\\u0000"));
  step.recipe = "</title><script>1</script>.lua";
  step.data = "\"><b>";
  step.packs[0].segments[0].file = "a\"onmouseover=\"x";
  const std::string page = pack_page({step});
  EXPECT_EQ(count(page, "<script"), 1u);
  EXPECT_EQ(count(page, "<img"), 0u);
  EXPECT_EQ(count(page, "<b>a&quot;onmouseover"), 1u);
  EXPECT_EQ(count(page, "\"><b>"), 0u);
  EXPECT_EQ(page.find('\0'), std::string::npos);
}

TEST_F(PackPage, AnEmptyStepStillGivesAPage) {
  EXPECT_NE(pack_page({}).find("</html>"), std::string::npos);
}

}  // namespace
}  // namespace xrun::pack_page_test
