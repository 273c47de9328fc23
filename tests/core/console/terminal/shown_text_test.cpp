// Foreign bytes become valid text without controls, direction changes or invisible characters.

#include "core/console/terminal/shown_text.h"

#include <gtest/gtest.h>

#include "core/base/utf8.h"

namespace xrun::shown_text_test {
namespace {

using namespace std::string_view_literals;

TEST(ShownText, PrintableTextStays) {
  EXPECT_EQ(shown_text("naïve 日本語 😀 नमस्ते\n\tx"), "naïve 日本語 😀 नमस्ते\n\tx");
  EXPECT_EQ(shown_text("\U0001F468\u200D\U0001F469"), "\U0001F468\u200D\U0001F469");
}

TEST(ShownText, SpellsControlsAndInvalidBytesAsNumbers) {
  EXPECT_EQ(shown_text("a\x1b[31mb\0\x7f\r"sv), "a<1B>[31mb<00><7F><0D>");
  EXPECT_EQ(shown_text("\xe4\xb8"), "<E4><B8>");
  EXPECT_EQ(shown_text("\u009b"), "<U+009B>");
}

TEST(ShownText, SpellsDirectionChangesAndInvisibleCharacters) {
  EXPECT_EQ(shown_text("a\u202Eb\u2066c\u200Fd\u061C"), "a<U+202E>b<U+2066>c<U+200F>d<U+061C>");
  EXPECT_EQ(shown_text("\uFEFFa\u200Bb\u2028"), "<U+FEFF>a<U+200B>b<U+2028>");
  EXPECT_EQ(shown_text("\U000E0041\uFFFE"), "<U+E0041><U+FFFE>");
  EXPECT_EQ(shown_text("a\U0001BCA0\U0001D173\U000E01F0"), "a<U+1BCA0><U+1D173><U+E01F0>");
}

TEST(ShownText, SpellsACombiningMarkWithoutABase) {
  EXPECT_EQ(shown_text("\u0301a"), "<U+0301>a");
  EXPECT_EQ(shown_text("a\u0301"), "a\u0301");
  EXPECT_EQ(shown_text("\u200D\U0001F469"), "<U+200D>\U0001F469");
}

TEST(ShownText, BlanksAreMarkedOnRequest) {
  EXPECT_EQ(shown_text("a b\tc\n", Blanks::kMarked), "a·b→c⏎");
  EXPECT_EQ(shown_text("a b\tc\n", Blanks::kBreaksMarked), "a b→c⏎");
}

TEST(ShownText, AnyBytesGiveValidTextWithoutControls) {
  std::string bytes;
  uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525 + 1013904223;
    bytes += static_cast<char>(state >> 24);
  }
  const std::string shown = shown_text(bytes, Blanks::kMarked);
  EXPECT_TRUE(is_valid_utf8(shown));
  for (const char c : shown) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

}  // namespace
}  // namespace xrun::shown_text_test
