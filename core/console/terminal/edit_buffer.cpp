// Offsets are bytes; every motion goes by whole characters, combining marks included. An undo
// restores the text before the last edit, or before a run of typed characters.

#include "core/console/terminal/edit_buffer.h"

#include <algorithm>
#include <cctype>

#include "core/base/utf8.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

// Each is a copy of the whole input, which is short.
constexpr size_t kMostSnapshots = 200;

bool blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }
// Part of a word: letters, digits, _ and everything beyond ASCII.
bool is_word_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0 || c == '_';
}

}  // namespace

void EditBuffer::set(std::string text) {
  const size_t end = text.size();
  set(std::move(text), end);
}

void EditBuffer::set(std::string text, size_t cursor) {
  text_ = std::move(text);
  cursor_ = std::min(cursor, text_.size());
  // The snapshots belong to the replaced text.
  past_.clear();
  typing_ = false;
}

void EditBuffer::remember(bool typing) {
  // A run of typed characters has one snapshot, taken before its first character.
  if (typing && typing_) return;
  typing_ = typing;
  past_.push_back({text_, cursor_});
  if (past_.size() > kMostSnapshots) past_.erase(past_.begin());
}

void EditBuffer::undo() {
  if (past_.empty()) return;
  text_ = std::move(past_.back().text);
  cursor_ = past_.back().cursor;
  past_.pop_back();
  // The next typed character begins a new run.
  typing_ = false;
}

void EditBuffer::insert(std::string_view piece) {
  if (piece.empty()) return;
  // Characters that are typed one by one, of at most 4 bytes, share an undo up to the next blank.
  remember(piece.size() <= 4 && !blank(piece[0]));
  text_.insert(cursor_, piece);
  cursor_ += piece.size();
}

void EditBuffer::replace_before(size_t begin, std::string_view piece) {
  remember(false);
  text_.replace(begin, cursor_ - begin, piece);
  cursor_ = begin + piece.size();
}

size_t EditBuffer::line_begin(size_t at) const {
  const size_t newline = at == 0 ? std::string::npos : text_.rfind('\n', at - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

size_t EditBuffer::line_end_at(size_t at) const {
  return std::min(text_.find('\n', at), text_.size());
}

size_t EditBuffer::next(size_t at) const {
  return at >= text_.size() ? at : at + text_character(text_, at).size;
}

// Joined characters can only be told apart from the left, so the line is read from its beginning.
size_t EditBuffer::previous(size_t at) const {
  if (at == 0) return 0;
  size_t before = line_begin(at);
  if (before == at) return at - 1;  // the newline
  while (next(before) < at) before = next(before);
  return before;
}

size_t EditBuffer::word_begin() const {
  size_t at = cursor_;
  // Skips blanks and signs before the word first, as Emacs does.
  while (at > 0 && !is_word_char(text_[at - 1])) --at;
  while (at > 0 && is_word_char(text_[at - 1])) --at;
  return at;
}

size_t EditBuffer::word_end() const {
  size_t at = cursor_;
  while (at < text_.size() && !is_word_char(text_[at])) ++at;
  while (at < text_.size() && is_word_char(text_[at])) ++at;
  return at;
}

void EditBuffer::left() {
  cursor_ = previous(cursor_);
  typing_ = false;
}

void EditBuffer::right() {
  cursor_ = next(cursor_);
  typing_ = false;
}

void EditBuffer::move_to_line(size_t begin, int column) {
  const size_t end = line_end_at(begin);
  // In display columns, not bytes; in a shorter line the cursor goes to the end.
  cursor_ = begin + fitting_size(std::string_view(text_).substr(begin, end - begin), column);
  typing_ = false;
}

bool EditBuffer::up() {
  const size_t begin = line_begin(cursor_);
  // In the first line the caller shows an older input instead.
  if (begin == 0) return false;
  const int column = text_width(std::string_view(text_).substr(begin, cursor_ - begin));
  move_to_line(line_begin(begin - 1), column);
  return true;
}

bool EditBuffer::down() {
  const size_t end = line_end_at(cursor_);
  // In the last line the caller shows a newer input instead.
  if (end == text_.size()) return false;
  const size_t begin = line_begin(cursor_);
  const int column = text_width(std::string_view(text_).substr(begin, cursor_ - begin));
  move_to_line(end + 1, column);
  return true;
}

void EditBuffer::backspace() {
  if (cursor_ == 0) return;
  remember(false);
  const size_t before = previous(cursor_);
  text_.erase(before, cursor_ - before);
  cursor_ = before;
}

void EditBuffer::erase() {
  if (cursor_ == text_.size()) return;
  remember(false);
  text_.erase(cursor_, next(cursor_) - cursor_);
}

void EditBuffer::kill(size_t begin, size_t end) {
  if (begin == end) return;
  remember(false);
  killed_ = text_.substr(begin, end - begin);
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

void EditBuffer::kill_to_line_end() {
  const size_t end = line_end_at(cursor_);
  // At the end of a line, removes the newline, as Emacs does.
  kill(cursor_, end == cursor_ && end < text_.size() ? end + 1 : end);
}

void EditBuffer::kill_to_line_begin() { kill(line_begin(cursor_), cursor_); }

void EditBuffer::kill_word_left() {
  size_t at = cursor_;
  while (at > 0 && blank(text_[at - 1])) --at;
  while (at > 0 && !blank(text_[at - 1])) --at;
  kill(at, cursor_);
}

void EditBuffer::kill_part_left() { kill(word_begin(), cursor_); }

void EditBuffer::kill_word_right() { kill(cursor_, word_end()); }

void EditBuffer::swap_characters() {
  const size_t begin = line_begin(cursor_), end = line_end_at(cursor_);
  // At the end of a line, swaps the two characters before the cursor, as Emacs does.
  const size_t middle = cursor_ == end ? previous(cursor_) : cursor_;
  if (middle <= begin || middle == end) return;
  remember(false);
  const size_t first = previous(middle), last = next(middle);
  const std::string swapped =
      text_.substr(middle, last - middle) + text_.substr(first, middle - first);
  text_.replace(first, last - first, swapped);
  cursor_ = last;
}

}  // namespace xrun
