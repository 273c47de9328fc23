#pragma once
// Lays out an editor's text in rows of a terminal, and draws it.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

struct ScreenSize {
  int columns = 80, rows = 24;
};

// Rows, none wider than the screen, and the cursor's position, from 0.
struct ScreenImage {
  std::vector<std::string> rows;
  int cursor_row = 0, cursor_column = 0;
};

// Text to lay out: lines with their prompts, a cursor, and rows below the text.
struct ScreenText {
  std::string text;
  size_t cursor = 0;               // a byte offset in text
  std::string prompt, more;        // of the first line and the others; may hold escape sequences
  std::vector<std::string> below;  // one row each, cut to the width
};

// Wraps lines at the width. Controls are shown as ^C, direction changes as <U+202E>; a tab takes
// four columns. A narrow screen shortens the prompts; a low one shows the rows around the cursor.
ScreenImage lay_out(const ScreenText& text, const ScreenSize& size);

// Draws each image over the previous one, below the terminal's other contents.
class ScreenPainter {
 public:
  // Returns the bytes that replace the previous image with this one.
  std::string paint(const ScreenImage& image, const ScreenSize& size);
  // Returns the bytes that leave the image and go to a new line below it.
  std::string finish();
  // Returns the bytes that start a new line if other output left the cursor within one: a mark and
  // a row of blanks, which wrap unless the cursor was at the beginning of a line.
  std::string begin_line(const ScreenSize& size);
  // Call after the screen was cleared or others wrote to it: the next image begins at the cursor.
  void forget() { drawn_ = {}; }

 private:
  ScreenImage drawn_;
};

}  // namespace xrun
