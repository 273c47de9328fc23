// A page is self-contained and legible, and escapes all foreign text.

#include "core/console/page/html_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::html_page_test {
namespace {

double channel(std::string_view color, size_t at) {
  const double part = std::stoi(std::string(color.substr(at, 2)), nullptr, 16) / 255.0;
  return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
}

double luminance(std::string_view color) {
  return 0.2126 * channel(color, 1) + 0.7152 * channel(color, 3) + 0.0722 * channel(color, 5);
}

// WCAG 2.1, contrast ratio.
double contrast(std::string_view a, std::string_view b) {
  const double x = luminance(a);
  const double y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

TEST(HtmlPage, ColorsStandOutFromThePaperAndThePanels) {
  const auto colors = page_colors();
  ASSERT_EQ(colors[0].name, "paper");
  ASSERT_EQ(colors[1].name, "panel");
  for (const PageColor& color : colors.subspan(2)) {
    const double wanted = color.name == "edge" ? 3.0 : 4.5;
    for (const PageColor& ground : colors.subspan(0, 2)) {
      EXPECT_GE(contrast(color.light, ground.light), wanted) << color.name << " on " << ground.name;
      EXPECT_GE(contrast(color.dark, ground.dark), wanted) << color.name << " on " << ground.name;
    }
  }
  EXPECT_EQ(series_color(3), "var(--series-3)");
  EXPECT_EQ(series_color(8), "var(--series-0)");
}

TEST(HtmlPage, EscapesMarkup) {
  EXPECT_EQ(html_escape("<b a=\"1\" c='2'>&amp;"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
  EXPECT_EQ(html_escape(""), "");
  EXPECT_EQ(html_escape("漢字 é\n\tx"), "漢字 é\n\tx");
}

TEST(HtmlPage, ShowsControlsAndInvalidBytesAsCharacters) {
  using namespace std::string_literals;
  EXPECT_EQ(html_escape("\0\x1b[2J\xff\u202Eevil"s),
            "&lt;00&gt;&lt;1B&gt;[2J&lt;FF&gt;&lt;U+202E&gt;evil");
}

TEST(HtmlPage, LoadsNothingExternalAndRunsOnlyItsScript) {
  const std::string page =
      html_page({.title = "a < b", .body = "<p>x</p>", .style = "p { }", .script = "let a = 1;"});
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>\n"));
  EXPECT_NE(page.find("<title>a &lt; b</title>"), std::string::npos);
  for (const char* reference : {"http:", "https:", "src=", "@import", "url(", "<link"}) {
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  }
  const std::string mark = "script-src 'nonce-";
  const size_t at = page.find(mark);
  ASSERT_NE(at, std::string::npos);
  const std::string nonce = page.substr(at + mark.size(), 32);
  EXPECT_NE(page.find("<script nonce=\"" + nonce + "\">\nlet a = 1;</script>"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(HtmlPage, HasNoScriptElementWithoutAScript) {
  EXPECT_EQ(html_page({.title = "t", .body = "b"}).find("<script"), std::string::npos);
}

TEST(HtmlPage, RefusesAScriptThatEndsItsElement) {
  EXPECT_EQ(message_of<Error>([] { html_page({.title = "t", .script = "a = '</script>'"}); }),
            "a page's script contains \"</\"");
  EXPECT_EQ(message_of<Error>([] { html_page({.title = "t", .style = "</style>"}); }),
            "a page's style contains \"</\"");
}

}  // namespace
}  // namespace xrun::html_page_test
