#pragma once
// Decodes the bytes from a terminal into keys: characters, named keys, controls, pasted text.

#include <optional>
#include <string>
#include <string_view>

namespace xrun {

enum class KeyKind {
  kText,  // one character
  kPaste,
  kEnter,
  kTab,
  kBackTab,
  kBackspace,
  kDelete,
  kLeft,
  kRight,
  kUp,
  kDown,
  kHome,
  kEnd,
  kWordLeft,
  kWordRight,
  kControl,  // text: the letter pressed with it, "c"
  kAlt,      // text: the character after the escape
  kEscape,
  kUnknown,  // a sequence that the editor does not use
};

struct Key {
  KeyKind kind = KeyKind::kUnknown;
  std::string text = {};  // valid UTF-8
};

// Accepts any bytes, in any pieces; invalid UTF-8 becomes U+FFFD. A paste (between ESC [200~ and
// ESC [201~) is one key: its line ends become '\n', its other controls except tabs are removed. The
// reader waits for the end of a paste, however slow the connection; Ctrl-C discards a stalled one.
class KeyReader {
 public:
  void feed(std::string_view bytes);
  // Returns the next complete key; nothing if more bytes are needed.
  std::optional<Key> next();
  // Returns the milliseconds to wait for more bytes, after which pending ones stand for themselves
  // (a lone escape) or a paste has stalled; -1 if none are pending.
  int patience_ms() const;
  // Call if no more bytes came within that time.
  void give_up() { given_up_ = true; }

 private:
  std::optional<Key> take(size_t size, Key key);
  std::optional<Key> read_escape();
  std::optional<Key> read_control_sequence();
  std::optional<Key> read_paste();
  std::optional<Key> read_character();

  std::string bytes_;
  bool pasting_ = false, given_up_ = false;
};

}  // namespace xrun
