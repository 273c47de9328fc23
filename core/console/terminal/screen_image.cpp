// A terminal that is made narrower wraps each drawn row by itself, because each ended with a line
// end. This determines how far above the cursor the drawn image begins.

#include "core/console/terminal/screen_image.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/utf8.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr int kFewestColumns = 4;  // smallest width that is laid out
constexpr int kTextBeside = 8;     // columns that a full prompt must leave for text
// The width of a tab depends on its column, so it is drawn as blanks.
constexpr std::string_view kTab = "    ";

// Returns the visible form of the character at text[at].
std::string shown(std::string_view text, size_t at, size_t size) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte == '\t') return std::string(kTab);
  if (byte == 0x7f) return "^?";
  if (byte < 0x20) return fmt::format("^{}", static_cast<char>(byte + 0x40));
  if (byte < 0x80 && size == 1) return std::string(1, text[at]);
  const CodePoint point = read_utf8(text, at);
  // Bidirectional controls could show the input in another order than it runs.
  const bool turns = (point.value >= 0x202A && point.value <= 0x202E) ||
                     (point.value >= 0x2066 && point.value <= 0x2069);
  if (!point.valid) return fmt::format("<{:02X}>", byte);
  // Below 0xA0 are the C1 controls, which terminals obey.
  if (turns || point.value < 0xA0) return fmt::format("<U+{:04X}>", point.value);
  return std::string(text.substr(at, size));
}

// Rows that fill from the left.
class RowFiller {
 public:
  explicit RowFiller(int columns) : columns_(columns) { image_.rows.emplace_back(); }

  void put(std::string_view piece, int width) {
    // No character straddles two rows.
    if (column_ + width > columns_ && column_ > 0) end();
    image_.rows.back() += piece;
    column_ += width;
  }
  void end() {
    image_.rows.emplace_back();
    column_ = 0;
  }
  void mark_cursor() {
    // After a full row the cursor is at the start of the next one.
    if (column_ >= columns_) end();
    image_.cursor_row = static_cast<int>(image_.rows.size()) - 1;
    image_.cursor_column = column_;
  }
  int column() const { return column_; }
  ScreenImage take() { return std::move(image_); }

 private:
  ScreenImage image_;
  int columns_, column_ = 0;
};

std::string fitted_prompt(const std::string& prompt, int columns) {
  return text_width(prompt) + kTextBeside <= columns ? prompt : "> ";
}

void keep_rows_around_cursor(ScreenImage& image, int rows) {
  const int all = static_cast<int>(image.rows.size());
  if (all <= rows) return;
  // Puts the cursor's row in the middle, if the text is long enough on both sides.
  const int first = std::clamp(image.cursor_row - rows / 2, 0, all - rows);
  image.rows.erase(image.rows.begin() + first + rows, image.rows.end());
  image.rows.erase(image.rows.begin(), image.rows.begin() + first);
  image.cursor_row -= first;
}

}  // namespace

ScreenImage lay_out(const ScreenText& text, const ScreenSize& size) {
  const int columns = std::max(size.columns, kFewestColumns);
  const std::string more = fitted_prompt(text.more, columns);
  const std::string prompt = fitted_prompt(text.prompt, columns);
  RowFiller rows(columns);
  rows.put(prompt, text_width(prompt));
  const std::string_view all = text.text;
  for (size_t at = 0; at < all.size();) {
    const size_t bytes = text_character(all, at).size;
    // An edit may have joined the text at the cursor to one character: a letter and its accent.
    if (text.cursor >= at && text.cursor < at + bytes) rows.mark_cursor();
    if (all[at] == '\n') {
      rows.end();
      rows.put(more, text_width(more));
      ++at;
      continue;
    }
    const std::string piece = shown(all, at, bytes);
    // A spelled-out character may be wider than the screen; it is put letter by letter.
    if (text_width(piece) <= columns) {
      rows.put(piece, text_width(piece));
    } else {
      for (const char c : piece) rows.put(std::string_view(&c, 1), 1);
    }
    at += bytes;
  }
  if (text.cursor >= all.size()) rows.mark_cursor();
  ScreenImage image = rows.take();
  for (const std::string& line : text.below) image.rows.push_back(cut_to_width(line, columns));
  keep_rows_around_cursor(image, std::max(1, size.rows));
  return image;
}

std::string ScreenPainter::paint(const ScreenImage& image, const ScreenSize& size) {
  // Counts the rows from the start of the old image to the cursor, at the present width.
  const int columns = std::max(size.columns, 1);
  int up = drawn_.cursor_column / columns;  // the cursor's own row may have wrapped too
  for (int row = 0; row < drawn_.cursor_row; ++row) {
    const int width = text_width(drawn_.rows[static_cast<size_t>(row)]);
    up += std::max(1, (width + columns - 1) / columns);
  }
  std::string out = "\r";
  if (up > 0) out += fmt::format("\x1b[{}A", up);
  // Erases from the cursor to the end of the screen.
  out += "\x1b[J";
  for (size_t row = 0; row < image.rows.size(); ++row) {
    if (row > 0) out += "\r\n";
    out += image.rows[row];
  }
  const int below = static_cast<int>(image.rows.size()) - 1 - image.cursor_row;
  if (below > 0) out += fmt::format("\x1b[{}A", below);
  // A relative move left would be off by one after a full row, where the cursor waits to wrap.
  out += '\r';
  if (image.cursor_column > 0) out += fmt::format("\x1b[{}C", image.cursor_column);
  drawn_ = image;
  return out;
}

std::string ScreenPainter::begin_line(const ScreenSize& size) {
  drawn_ = {};
  // An inverse % and a line of blanks keep text without a line end visible before the prompt, as in
  // zsh.
  return "\x1b[7m%\x1b[0m" + std::string(static_cast<size_t>(std::max(1, size.columns) - 1), ' ') +
         "\r";
}

std::string ScreenPainter::finish() {
  const int below = static_cast<int>(drawn_.rows.size()) - 1 - drawn_.cursor_row;
  drawn_ = {};
  return (below > 0 ? fmt::format("\x1b[{}B", below) : std::string()) + "\r\n";
}

}  // namespace xrun
