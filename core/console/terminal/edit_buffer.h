#pragma once
// Text of one or more lines with a cursor, and the edits that keys make.

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// The cursor is a byte offset; motions and deletions go by characters (text_width.h) and do nothing
// at an end of the text.
class EditBuffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }
  // Replaces the text and forgets the undo history; without `cursor` the cursor goes to the end.
  void set(std::string text);
  void set(std::string text, size_t cursor);

  void insert(std::string_view piece);
  // Replaces the bytes [begin, cursor) by `piece`.
  void replace_before(size_t begin, std::string_view piece);
  void left();
  void right();
  void word_left() { cursor_ = word_begin(); }
  void word_right() { cursor_ = word_end(); }
  void line_home() { cursor_ = line_begin(cursor_); }
  void line_end() { cursor_ = line_end_at(cursor_); }
  // Moves to the nearest column of the line above or below; returns false if there is none.
  bool up();
  bool down();

  void backspace();
  void erase();  // the character after the cursor
  void kill_to_line_end();
  void kill_to_line_begin();
  void kill_word_left();  // back to a blank, as Ctrl-W does
  void kill_part_left();  // back to the beginning of a word, as Alt-Backspace does
  void kill_word_right();
  void yank() { insert(killed_); }
  void swap_characters();  // the two beside the cursor
  void undo();

  size_t line_begin(size_t at) const;
  size_t line_end_at(size_t at) const;

 private:
  size_t previous(size_t at) const;
  size_t next(size_t at) const;
  size_t word_begin() const;
  size_t word_end() const;
  void remember(bool typing);
  void kill(size_t begin, size_t end);
  void move_to_line(size_t begin, int column);

  struct Snapshot {
    std::string text;
    size_t cursor;
  };
  std::string text_, killed_;
  size_t cursor_ = 0;
  std::vector<Snapshot> past_;
  bool typing_ = false;  // consecutive typed characters are undone together
};

}  // namespace xrun
