// NFC composes and reorders characters and keeps their alignment with the text.

#include "core/text/tokenizer/normal_form.h"

#include <gtest/gtest.h>

#include "core/base/json.h"
#include "core/text/tokenizer/normalizers.h"

namespace xrun::normal_form_test {

namespace {

AlignedText normal_form(const std::string& text) {
  const Json json = parse_json(R"({"type": "NFC"})", "nfc");
  AlignedText out(text, 0);
  make_normalizer({json, "nfc"})->apply(out);
  return out;
}

std::string nfc(const std::string& text) { return std::string(normal_form(text).text()); }

TEST(Nfc, ComposesAndReorders) {
  EXPECT_EQ(nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(nfc("e\u0301\u0323"), "\u1eb9\u0301");  // the dot below goes first
  EXPECT_EQ(nfc("e\u0323\u0301"), "\u1eb9\u0301");
  EXPECT_EQ(nfc("\u1100\u1161\u11a8"), "\uac01");  // Hangul
  EXPECT_EQ(nfc("\uac00\u11a8"), "\uac01");
  EXPECT_EQ(nfc("\uac01\u11a8"), "\uac01\u11a8");
  EXPECT_EQ(nfc("\u212b\u2126"), "\u00c5\u03a9");  // singletons
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");        // excluded from composition
  EXPECT_EQ(nfc("\u0301a"), "\u0301a");
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(nfc(""), "");
}

TEST(Nfc, TextInNormalFormStaysAView) {
  const std::string text = "plain, caf\u00e9, \u6771\u4eac";
  EXPECT_EQ(normal_form(text).text().data(), text.data());
}

TEST(Nfc, AComposedCharacterAlignsWithTheFirstOfItsCharacters) {
  const std::string text = "xe\u0301y";
  const AlignedText out = normal_form(text);
  ASSERT_EQ(out.text(), "x\u00e9y");
  EXPECT_EQ(out.origin(0, 1), (ByteRange{0, 1}));
  EXPECT_EQ(out.origin(1, 3), (ByteRange{1, 2}));
  EXPECT_EQ(out.origin(3, 4), (ByteRange{4, 5}));
}

}  // namespace

}  // namespace xrun::normal_form_test
