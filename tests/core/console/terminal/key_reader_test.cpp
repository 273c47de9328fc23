// Terminal bytes in any pieces decode to the same keys and pastes.

#include "core/console/terminal/key_reader.h"

#include <gtest/gtest.h>

namespace xrun::key_reader_test {
namespace {

// Every key of bytes that come at once.
std::vector<Key> keys(std::string_view bytes) {
  KeyReader reader;
  reader.feed(bytes);
  std::vector<Key> all;
  while (const auto key = reader.next()) all.push_back(*key);
  return all;
}

KeyKind only(std::string_view bytes) {
  const std::vector<Key> all = keys(bytes);
  EXPECT_EQ(all.size(), 1u) << bytes;
  return all.empty() ? KeyKind::kUnknown : all[0].kind;
}

TEST(KeyReader, ACharacterMayComeByteByByte) {
  KeyReader reader;
  reader.feed("\xE4");
  EXPECT_FALSE(reader.next());
  reader.feed("\xB8");
  EXPECT_FALSE(reader.next());
  reader.feed("\x96");
  const auto key = reader.next();
  ASSERT_TRUE(key);
  EXPECT_EQ(key->text, "世");
  EXPECT_FALSE(reader.next());
}

TEST(KeyReader, SequencesOfTerminalsAreNamedKeys) {
  EXPECT_EQ(only("\x1b[A"), KeyKind::kUp);
  EXPECT_EQ(only("\x1bOB"), KeyKind::kDown);
  EXPECT_EQ(only("\x1b[1;5C"), KeyKind::kWordRight);
  EXPECT_EQ(only("\x1b[3~"), KeyKind::kDelete);
  EXPECT_EQ(only("\x1b[H"), KeyKind::kHome);
  EXPECT_EQ(only("\x1b[Z"), KeyKind::kBackTab);
  EXPECT_EQ(only("\x7f"), KeyKind::kBackspace);
  EXPECT_EQ(only("\r"), KeyKind::kEnter);
  EXPECT_EQ(only("\x1b[99;99q"), KeyKind::kUnknown);
}

TEST(KeyReader, FunctionKeysOfTheLinuxConsoleTypeNothing) {
  const std::vector<Key> all = keys("\x1b[[Ax");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].kind, KeyKind::kUnknown);
  EXPECT_EQ(all[1].text, "x");
}

TEST(KeyReader, ALoneEscapeIsAKeyAfterATimeout) {
  KeyReader reader;
  reader.feed("\x1b");
  EXPECT_FALSE(reader.next());
  EXPECT_GT(reader.patience_ms(), 0);
  reader.give_up();
  ASSERT_EQ(reader.next()->kind, KeyKind::kEscape);
  EXPECT_EQ(reader.patience_ms(), -1);
}

TEST(KeyReader, ControlsAndAltCarryTheirLetter) {
  EXPECT_EQ(keys("\x12")[0].text, "r");
  EXPECT_EQ(keys("\x1f")[0].text, "_");
  const Key alt = keys(
      "\x1b"
      "b")[0];
  EXPECT_EQ(alt.kind, KeyKind::kAlt);
  EXPECT_EQ(alt.text, "b");
}

TEST(KeyReader, APasteIsOneKeyWithoutControls) {
  const std::vector<Key> all = keys("\x1b[200~a\r\nb\tc\x03\x1b[31md\x1b[201~e");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].kind, KeyKind::kPaste);
  EXPECT_EQ(all[0].text, "a\nb\tc[31md");
  EXPECT_EQ(all[1].text, "e");
}

TEST(KeyReader, APasteHasNoC1Controls) {
  const std::vector<Key> all = keys(
      "\x1b[200~a\xc2\x9b"
      "31m\xc2\x85\xc2\xa0\xc3\x9b\xc2\x1b[201~");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].text, "a31m\xc2\xa0\xc3\x9b\xef\xbf\xbd");
}

TEST(KeyReader, AStalledPasteIsStillOnePaste) {
  KeyReader reader;
  reader.feed("\x1b[200~a\nb\r");
  EXPECT_FALSE(reader.next());
  EXPECT_GE(reader.patience_ms(), 500);
  reader.give_up();
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.patience_ms(), -1);
  reader.feed("\nc\x03\n");  // a control of the text itself
  EXPECT_FALSE(reader.next());
  reader.give_up();
  reader.feed("\x1b[201~d");
  EXPECT_EQ(reader.next()->text, "a\nb\nc\n");
  EXPECT_EQ(reader.next()->text, "d");
}

TEST(KeyReader, CtrlCDiscardsAStalledPaste) {
  KeyReader reader;
  reader.feed("\x1b[200~rm(everything)\n");
  EXPECT_FALSE(reader.next());
  reader.give_up();
  reader.feed("\x03x");
  const std::optional<Key> key = reader.next();
  ASSERT_TRUE(key);
  EXPECT_EQ(key->kind, KeyKind::kControl);
  EXPECT_EQ(key->text, "c");
  EXPECT_EQ(reader.next()->text, "x");
  EXPECT_FALSE(reader.next());
}

TEST(KeyReader, InvalidBytesBecomeTheReplacementCharacter) {
  const std::vector<Key> all = keys(
      "\xff"
      "a\xC3(");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].text, "\xEF\xBF\xBD");
  EXPECT_EQ(all[1].text, "a");
  EXPECT_EQ(all[2].text, "\xEF\xBF\xBD");
  EXPECT_EQ(all[3].text, "(");
}

TEST(KeyReader, AnyBytesAreReadToTheirEnd) {
  uint32_t state = 7;
  for (int round = 0; round < 2000; ++round) {
    KeyReader reader;
    std::string bytes;
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525 + 1013904223;
      constexpr std::string_view kFavourites = "\x1b[O0~;2A\xC3\xFF\r";
      bytes += (state >> 20) % 3 == 0 ? static_cast<char>(state >> 24)
                                      : kFavourites[(state >> 8) % kFavourites.size()];
    }
    reader.feed(bytes);
    int count = 0;
    while (reader.patience_ms() >= 0 && count < 1000) {
      if (!reader.next()) reader.give_up();
      ++count;
    }
    ASSERT_LT(count, 1000);
  }
}

}  // namespace
}  // namespace xrun::key_reader_test
