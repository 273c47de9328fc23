// The editor driven by the bytes that a terminal sends, without one.

#include "core/console/terminal/line_editor.h"

#include <gtest/gtest.h>

#include "core/console/terminal/text_width.h"

namespace xrun::line_editor_test {
namespace {

class LineEditorTest : public testing::Test {
 protected:
  LineEditorTest() {
    settings_.prompt = "> ";
    settings_.more = ". ";
    settings_.wants_more = [](std::string_view text) {
      return text.ends_with("do") || (text.find("do") != text.npos && !text.ends_with("end"));
    };
    settings_.complete = [this](std::string_view text, size_t cursor) {
      size_t begin = cursor;
      while (begin > 0 && text[begin - 1] != ' ') --begin;
      Completions found{.begin = begin, .candidates = {}};
      for (const std::string& word : words_) {
        if (word.starts_with(text.substr(begin, cursor - begin)))
          found.candidates.push_back({word, "hint"});
      }
      return found;
    };
    editor_ = std::make_unique<LineEditor>(settings_, history_);
  }

  // Feeds bytes; returns the last request that was not kNone.
  EditorRequest feed(std::string_view bytes) {
    reader_.feed(bytes);
    EditorRequest last = EditorRequest::kNone;
    while (true) {
      const auto key = reader_.next();
      if (!key && reader_.patience_ms() < 0) return last;
      if (!key) {
        reader_.give_up();
        continue;
      }
      if (const auto request = editor_->press(*key); request != EditorRequest::kNone)
        last = request;
    }
  }
  // The text with | at the cursor.
  std::string text() const {
    std::string text = editor_->text();
    return text.insert(editor_->cursor(), "|");
  }
  std::vector<std::string> rows(int columns, int rows = 24) const {
    const ScreenSize size{columns, rows};
    return lay_out(editor_->shown(size), size).rows;
  }

  EditorSettings settings_;
  History history_;
  std::vector<std::string> words_ = {"matmul", "matrix", "max", "sum"};
  std::unique_ptr<LineEditor> editor_;
  KeyReader reader_;
};

TEST_F(LineEditorTest, KeysMoveAndEditByCharacters) {
  feed("a世é\x1b[D\x1b[DX");
  EXPECT_EQ(text(), "aX|世é");
  feed("\x1b[3~");
  EXPECT_EQ(text(), "aX|é");
  feed("\x01Y\x05Z");
  EXPECT_EQ(text(), "YaXéZ|");
  feed("\x7f\x7f");
  EXPECT_EQ(text(), "YaX|");
}

TEST_F(LineEditorTest, ACombinedCharacterIsOneStep) {
  feed("ae\xCC\x81z");  // e with a separate acute accent
  feed("\x1b[D\x7f");
  EXPECT_EQ(text(), "a|z");
}

TEST_F(LineEditorTest, WordsAreKilledAndYanked) {
  feed("one two.three");
  feed("\x17");
  EXPECT_EQ(text(), "one |");
  feed("\x19\x19");
  EXPECT_EQ(text(), "one two.threetwo.three|");
  feed("\x1b\x7f");
  EXPECT_EQ(text(), "one two.threetwo.|");
  feed("\x15");
  EXPECT_EQ(text(), "|");
}

TEST_F(LineEditorTest, UndoRemovesCharactersThatWereTypedTogether) {
  feed("abc");
  feed("\x17");
  feed("\x1f");
  EXPECT_EQ(text(), "abc|");
  feed("\x1f");
  EXPECT_EQ(text(), "|");
  feed("\x1f");
  EXPECT_EQ(text(), "|");
}

TEST_F(LineEditorTest, EnterEndsACompleteInputAndIndentsAnUnfinishedOne) {
  EXPECT_EQ(feed("x\r"), EditorRequest::kAccept);
  editor_->reset();
  EXPECT_EQ(feed("for i do\rf()\r"), EditorRequest::kNone);
  EXPECT_EQ(text(), "for i do\n  f()\n  |");
  EXPECT_EQ(feed("end"), EditorRequest::kNone);
  EXPECT_EQ(text(), "for i do\n  f()\nend|");
}

TEST_F(LineEditorTest, TwoBlankLinesOrCtrlDEndAnUnfinishedInput) {
  EXPECT_EQ(feed("for i do\r\r"), EditorRequest::kNone);
  EXPECT_EQ(text(), "for i do\n  \n  |");
  EXPECT_EQ(feed("\r"), EditorRequest::kAccept);
  EXPECT_EQ(text(), "for i do\n  \n  |");
  editor_->reset();
  EXPECT_EQ(feed("for i do\r\rf()\r\r"), EditorRequest::kNone) << "blank lines inside";
  EXPECT_EQ(feed("\x04"), EditorRequest::kAccept);
  editor_->reset();
  EXPECT_EQ(feed("for i do\x01\x04"), EditorRequest::kNone) << "inside, Ctrl-D deletes";
  EXPECT_EQ(text(), "|or i do");
  editor_->reset();
  EXPECT_EQ(feed("x\x04"), EditorRequest::kNone) << "a complete input waits for Enter";
}

TEST_F(LineEditorTest, AClosingWordIsDedentedToItsBlock) {
  feed("for i do\rend");
  EXPECT_EQ(text(), "for i do\nend|");
  EXPECT_EQ(feed("\r"), EditorRequest::kAccept);
}

TEST_F(LineEditorTest, APasteKeepsItsLinesAndWaitsForEnter) {
  EXPECT_EQ(feed("\x1b[200~a = 1\r\nb = 2\x1b[201~"), EditorRequest::kNone);
  EXPECT_EQ(text(), "a = 1\nb = 2|");
  feed("\x1b[A");
  EXPECT_EQ(text(), "a = 1|\nb = 2");
}

TEST_F(LineEditorTest, UpFindsInputsWithTheSamePrefix) {
  for (const char* input : {"step()", "x = 1", "step(2)"}) history_.add(input);
  editor_->reset();
  feed("st\x1b[A");
  EXPECT_EQ(text(), "step(2)|");
  feed("\x1b[A");
  EXPECT_EQ(text(), "step()|");
  feed("\x1b[A");
  EXPECT_EQ(text(), "step()|");
  feed("\x1b[B\x1b[B");
  EXPECT_EQ(text(), "st|");
}

TEST_F(LineEditorTest, SearchFindsOlderInputsAndCanBeUndone) {
  for (const char* input : {"local a = sum(x)", "y", "sum(z)"}) history_.add(input);
  editor_->reset();
  feed("keep\x12sum");
  EXPECT_EQ(text(), "|sum(z)");
  feed("\x12");
  EXPECT_EQ(text(), "local a = |sum(x)");
  EXPECT_EQ(rows(40).back(), "search: sum");
  feed("q");
  EXPECT_EQ(rows(40).back(), "no match: sumq");
  feed("\x07");
  EXPECT_EQ(text(), "keep|");
  feed("\x12sum(");
  EXPECT_EQ(feed("\r"), EditorRequest::kAccept);
  EXPECT_EQ(editor_->text(), "sum(z)");
}

TEST_F(LineEditorTest, DownComesBackToTheInputThatASearchLeft) {
  for (const char* input : {"sum(z)", "y"}) history_.add(input);
  editor_->reset();
  feed("keep\x12sum\x05");
  EXPECT_EQ(text(), "sum(z)|");
  feed("\x0e\x0e");
  EXPECT_EQ(text(), "keep|");
  // A search that is given up keeps the place in the history, and the input after it.
  feed("\x02\x10\x10");
  EXPECT_EQ(text(), "sum(z)|");
  feed("\x12y\x07\x0e");
  EXPECT_EQ(text(), "y|");
  feed("\x0e");
  EXPECT_EQ(text(), "keep|");
}

TEST_F(LineEditorTest, SearchForwardFindsTheOldestInput) {
  for (const char* input : {"alpha", "beta alpha"}) history_.add(input);
  editor_->reset();
  feed("\x1b[A\x1b[A\x13");
  feed("alpha");
  EXPECT_EQ(text(), "|alpha");
  feed("\x13");
  EXPECT_EQ(text(), "beta |alpha");
  feed("\x7f");
  EXPECT_EQ(text(), "|alpha");
}

TEST_F(LineEditorTest, TabInsertsTheCommonPrefixThenEachCandidate) {
  feed("x ma\t");
  EXPECT_EQ(text(), "x ma|");
  EXPECT_EQ(rows(40),
            (std::vector<std::string>{"> x ma", "matmul  hint", "matrix  hint", "max     hint"}));
  feed("\t\t");
  EXPECT_EQ(text(), "x matrix|");
  feed("\x1b[Z");
  EXPECT_EQ(text(), "x matmul|");
  EXPECT_EQ(feed("\r"), EditorRequest::kNone) << "the first Enter takes the way";
  EXPECT_EQ(feed("\r"), EditorRequest::kAccept);
  editor_->reset();
  feed("s\t");
  EXPECT_EQ(text(), "sum|");
}

TEST_F(LineEditorTest, ManyCandidatesAreListedInColumnsWithTheirNumber) {
  words_.clear();
  for (int i = 0; i < 300; ++i) words_.push_back("word" + std::to_string(1000 + i));
  feed("w\t");
  EXPECT_EQ(text(), "word1|");
  const std::vector<std::string> shown = rows(40);
  ASSERT_EQ(shown.size(), 10u);
  EXPECT_EQ(shown[1], "word1000  word1008  word1016  word1024");
  EXPECT_EQ(shown.back(), "1 to 32 of 300; Tab shows more");
}

TEST_F(LineEditorTest, TabNeverSplitsACharacterThatCandidatesShareInPart) {
  words_ = {"rows/äa.jsonl", "rows/öb.jsonl"};
  feed("ro\t");
  EXPECT_EQ(text(), "rows/|");
}

TEST_F(LineEditorTest, TabAtTheBeginningOfALineIndents) {
  feed("for i do\r\t");
  EXPECT_EQ(text(), "for i do\n    |");
}

TEST_F(LineEditorTest, ControlKeysBecomeRequests) {
  EXPECT_EQ(feed("\x04"), EditorRequest::kEnd);
  EXPECT_EQ(feed("x\x03"), EditorRequest::kCancel);
  EXPECT_EQ(feed("\x1a"), EditorRequest::kSuspend);
  EXPECT_EQ(feed("\x0c"), EditorRequest::kClear);
  feed("\x01");
  EXPECT_EQ(feed("\x04"), EditorRequest::kNone) << "deletes where there is something";
  EXPECT_EQ(text(), "|");
}

TEST_F(LineEditorTest, LongLinesWrapByColumnsAndTheCursorFollows) {
  feed("世世世世世");
  const ScreenSize size{8, 24};
  ScreenImage image = lay_out(editor_->shown(size), size);
  EXPECT_EQ(image.rows, (std::vector<std::string>{"> 世世世", "世世"}));
  EXPECT_EQ(image.cursor_row, 1);
  EXPECT_EQ(image.cursor_column, 4);
  feed("世世");  // exactly full: the cursor begins the next row
  image = lay_out(editor_->shown(size), size);
  EXPECT_EQ(image.cursor_row, 2);
  EXPECT_EQ(image.cursor_column, 0);
}

TEST_F(LineEditorTest, NoRowIsWiderThanAnyScreen) {
  feed("local 世界 = { 'a\xCC\x81', \"👩‍👩‍👧\" }\rfor do\rprint(1)");
  history_.add("raw \x1b[31m \xE2\x80\xAE bytes");
  for (int columns = 1; columns < 30; ++columns) {
    for (const std::string& row : rows(columns)) {
      EXPECT_LE(text_width(row), std::max(columns, 4)) << row;
    }
  }
}

TEST_F(LineEditorTest, ControlsInAnInputAreSpelledOut) {
  editor_->press({KeyKind::kPaste, "a\tb\x01\xE2\x80\xAE"});
  EXPECT_EQ(rows(60)[0], "> a    b^A<U+202E>");
}

TEST_F(LineEditorTest, ACursorInsideACharacterIsDrawnBeforeIt) {
  feed("\x1b[200~ab\n\xCC\x81\x1b[201~\x1b[D\x7f");  // the accent joins the b
  EXPECT_EQ(text(), "ab|\xCC\x81");
  const ScreenSize size{20, 24};
  EXPECT_EQ(lay_out(editor_->shown(size), size).cursor_column, 3);
}

TEST_F(LineEditorTest, AShortScreenShowsTheRowsAroundTheCursor) {
  feed("\x1b[200~1\n2\n3\n4\n5\n6\n7\n8\x1b[201~");
  EXPECT_EQ(rows(20, 3), (std::vector<std::string>{". 6", ". 7", ". 8"}));
  feed("\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A");
  EXPECT_EQ(rows(20, 3), (std::vector<std::string>{"> 1", ". 2", ". 3"}));
}

TEST(ScreenPainter, GoesUpToTheBeginningOfThePreviousImage) {
  ScreenPainter painter;
  const ScreenSize size{20, 24};
  EXPECT_EQ(painter.paint({{"> a"}, 0, 3}, size), "\r\x1b[J> a\r\x1b[3C");
  EXPECT_EQ(painter.paint({{"> a", ". b"}, 1, 3}, size), "\r\x1b[J> a\r\n. b\r\x1b[3C");
  EXPECT_EQ(painter.paint({{"> x", "below"}, 0, 2}, size),
            "\r\x1b[1A\x1b[J> x\r\nbelow\x1b[1A\r\x1b[2C");
  EXPECT_EQ(painter.finish(), "\x1b[1B\r\n");
}

TEST(ScreenPainter, EndsALineThatOtherOutputLeftOpen) {
  ScreenPainter painter;
  EXPECT_EQ(painter.begin_line({5, 24}), "\x1b[7m%\x1b[0m    \r");
}

TEST_F(LineEditorTest, AnyKeysLeaveValidTextAndCursor) {
  uint32_t state = 11;
  for (const char* input : {"for i do\nx\nend", "世界 = '👩‍👩‍👧'", "max"})
    history_.add(input);
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (int i = 0; i < 60; ++i) {
      state = state * 1664525 + 1013904223;
      constexpr std::string_view kFavourites =
          "\x1b[A\x1b[B\x1b[C\x1b[D\x12\x13\x07\t\x1b[Z\r\x7f\x15\x17\x19\x1f\x14 "
          "m\xE4\xB8\x96\xCC\x81";
      bytes += (state >> 20) % 4 == 0 ? static_cast<char>(state >> 24)
                                      : kFavourites[(state >> 8) % kFavourites.size()];
    }
    if (feed(bytes) != EditorRequest::kNone && round % 3 == 0) editor_->reset();
    ASSERT_LE(editor_->cursor(), editor_->text().size());
    const ScreenSize size{1 + static_cast<int>(state >> 26),
                          1 + static_cast<int>((state >> 8) % 9)};
    const ScreenImage image = lay_out(editor_->shown(size), size);
    ASSERT_LE(static_cast<int>(image.rows.size()), size.rows);
    ASSERT_GE(image.cursor_row, 0);
    ASSERT_LT(image.cursor_row, static_cast<int>(image.rows.size()));
    if (editor_->text().size() > 4000) editor_->reset();
  }
}

TEST(ScreenPainter, CountsTheRowsThatANarrowedTerminalHasWrapped) {
  ScreenPainter painter;
  painter.paint({{std::string(18, 'a'), "bb"}, 1, 2}, {20, 24});
  // The first row now takes two.
  EXPECT_EQ(painter.paint({{"x"}, 0, 1}, {10, 24}), "\r\x1b[2A\x1b[Jx\r\x1b[1C");
}

}  // namespace
}  // namespace xrun::line_editor_test
