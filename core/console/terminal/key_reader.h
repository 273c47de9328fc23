#pragma once
// The bytes that a terminal sends, as keys: characters, named keys, controls, pasted text.

#include <optional>
#include <string>
#include <string_view>

namespace xrun {

struct Key {
  enum class Kind {
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
    kControl,  // text: the letter that was held down with it, "c"
    kAlt,      // text: the character after the escape
    kEscape,
    kUnknown,  // a sequence that means nothing here
  };
  Kind kind = Kind::kUnknown;
  std::string text = {};  // valid UTF-8
};

// Reads any bytes, in any pieces. A paste (between ESC [200~ and ESC [201~) is one key: its line
// ends are '\n', its other controls but tabs are gone. It is waited for until its end, however
// slow the line is; Ctrl-C after it has stalled forgets it. Invalid UTF-8 becomes U+FFFD.
class KeyReader {
 public:
  void feed(std::string_view bytes);
  // The next whole key; nothing if it needs more bytes.
  std::optional<Key> next();
  // Milliseconds after which bytes that have come stand for themselves (an escape that nothing
  // follows) or a paste has stalled; -1 if none wait.
  int patience_ms() const;
  // No more bytes came within that time.
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
