#pragma once
// What an editor shows, laid out in rows of a terminal, and the bytes that draw it there.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

struct ScreenSize {
  int columns = 80, rows = 24;
};

// Rows, none wider than the screen, and where the cursor stands (from 0).
struct ScreenImage {
  std::vector<std::string> rows;
  int cursor_row = 0, cursor_column = 0;
};

// Text to lay out: lines, each behind its own prompt, a cursor, and what stands below.
struct ScreenText {
  std::string text;
  size_t cursor = 0;               // a byte offset in text
  std::string prompt, more;        // before the first line, before the others; may hold escapes
  std::vector<std::string> below;  // whole rows; cut to the width
};

// Wraps lines at the width. Controls are spelled ^C, what turns directions <U+202E>, tabs are four
// columns. A narrow screen shortens the prompts; a low one shows the rows around the cursor.
ScreenImage lay_out(const ScreenText& text, const ScreenSize& size);

// Draws images one over the other, below what the terminal holds already.
class ScreenPainter {
 public:
  // The bytes that replace the image drawn before by this one.
  std::string paint(const ScreenImage& image, const ScreenSize& size);
  // The bytes that leave the image standing and go to a new line below it.
  std::string finish();
  // The bytes that go to a line of its own if others left the cursor within one: a mark is drawn
  // and as many blanks as bring it there, which at a line's beginning is where it was.
  std::string begin_line(const ScreenSize& size);
  // The screen was cleared, or others have written on it: the next image begins where the cursor
  // is.
  void forget() { drawn_ = {}; }

 private:
  ScreenImage drawn_;
};

}  // namespace xrun
