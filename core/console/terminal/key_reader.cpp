// Sequences: ECMA-48 (ESC [ parameters final), VT100 application keys (ESC O final), xterm's
// modifiers (ESC [ 1 ; 5 C is Ctrl-Right) and its bracketed paste.

#include "core/console/terminal/key_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr char kEscape = '\x1b', kCtrlC = '\x03';
constexpr std::string_view kPasteBegin = "\x1b[200~", kPasteEnd = "\x1b[201~";
constexpr size_t kLongestSequence = 32;  // no terminal sends longer ones
// 50 ms suffice for the rest of a sequence to arrive and go unnoticed after Esc.
constexpr int kEscapeMs = 50, kPasteMs = 1000;

// VT220 sends 1~ and 4~; rxvt sends 7~, 8~, c and d; M is Enter on the keypad.
constexpr std::array<std::pair<std::string_view, KeyKind>, 30> kSequences = {{
    {"A", KeyKind::kUp},           {"B", KeyKind::kDown},        {"C", KeyKind::kRight},
    {"D", KeyKind::kLeft},         {"H", KeyKind::kHome},        {"F", KeyKind::kEnd},
    {"Z", KeyKind::kBackTab},      {"1~", KeyKind::kHome},       {"7~", KeyKind::kHome},
    {"4~", KeyKind::kEnd},         {"8~", KeyKind::kEnd},        {"3~", KeyKind::kDelete},
    {"1;5C", KeyKind::kWordRight}, {"1;5D", KeyKind::kWordLeft}, {"1;3C", KeyKind::kWordRight},
    {"1;3D", KeyKind::kWordLeft},  {"1;2C", KeyKind::kRight},    {"1;2D", KeyKind::kLeft},
    {"5C", KeyKind::kWordRight},   {"5D", KeyKind::kWordLeft},   {"c", KeyKind::kWordRight},
    {"d", KeyKind::kWordLeft},     {"1;2H", KeyKind::kHome},     {"1;2F", KeyKind::kEnd},
    {"1;5H", KeyKind::kHome},      {"1;5F", KeyKind::kEnd},      {"3;5~", KeyKind::kDelete},
    {"M", KeyKind::kEnter},        {"1;2A", KeyKind::kUp},       {"1;2B", KeyKind::kDown},
}};

KeyKind meaning(std::string_view sequence) {
  for (const auto& [known, kind] : kSequences) {
    if (known == sequence) return kind;
  }
  return KeyKind::kUnknown;
}

// Returns true for a byte that forms a C1 control, U+0080 to U+009F, with a byte C2 before it.
bool is_c1_end(char c) {
  return static_cast<unsigned char>(c) >= 0x80 && static_cast<unsigned char>(c) < 0xA0;
}

// Returns pasted text without controls that would act on the editor or the terminal.
std::string plain_text(std::string_view pasted) {
  std::string out;
  for (size_t at = 0; at < pasted.size(); ++at) {
    const char c = pasted[at];
    if (c == '\r') {
      // CR LF is one line end, as is CR alone.
      if (at + 1 == pasted.size() || pasted[at + 1] != '\n') out += '\n';
    } else if (c == '\xC2' && at + 1 < pasted.size() && is_c1_end(pasted[at + 1])) {
      ++at;
    } else if (c == '\n' || c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != '\x7f')) {
      out += c;
    }
  }
  return repair_utf8(out);
}

// Returns the size of the character that begins with this byte; 1 for an invalid one.
size_t announced_size(unsigned char first) {
  if (first < 0xC0) return 1;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 1;
}

}  // namespace

void KeyReader::feed(std::string_view bytes) {
  if (pasting_ && given_up_) {
    // The paste has stalled; Ctrl-C drops it, any other byte continues it.
    if (bytes.starts_with(kCtrlC)) {
      bytes_.clear();
      pasting_ = false;
    }
    given_up_ = false;
  }
  bytes_ += bytes;
}

int KeyReader::patience_ms() const {
  if (pasting_) return given_up_ ? -1 : kPasteMs;
  return bytes_.empty() ? -1 : kEscapeMs;
}

std::optional<Key> KeyReader::take(size_t size, Key key) {
  bytes_.erase(0, size);
  given_up_ = false;
  return key;
}

std::optional<Key> KeyReader::next() {
  if (pasting_) return read_paste();
  if (bytes_.empty()) {
    given_up_ = false;  // so that it does not apply to later bytes
    return std::nullopt;
  }
  const char c = bytes_[0];
  if (c == kEscape) return read_escape();
  if (c == '\r' || c == '\n') return take(1, {KeyKind::kEnter});
  if (c == '\t') return take(1, {KeyKind::kTab});
  if (c == '\x7f' || c == '\b') return take(1, {KeyKind::kBackspace});
  if (static_cast<unsigned char>(c) < 0x20) {
    // 0x01 is Ctrl-A; 0x1c to 0x1f are Ctrl with \ ] ^ _
    const char letter = static_cast<char>(c < 0x1b ? c + 0x60 : c + 0x40);
    return take(1, {KeyKind::kControl, std::string(1, c == 0 ? '@' : letter)});
  }
  return read_character();
}

std::optional<Key> KeyReader::read_character() {
  const size_t size = announced_size(static_cast<unsigned char>(bytes_[0]));
  // Finds the first byte that does not continue the character.
  const auto broken = std::find_if_not(
      bytes_.begin() + 1, bytes_.begin() + static_cast<long>(std::min(size, bytes_.size())),
      is_continuation);
  const auto have = static_cast<size_t>(broken - bytes_.begin());
  // The next read may bring the rest of the character.
  if (have == bytes_.size() && have < size && !given_up_) return std::nullopt;
  const CodePoint point = read_utf8(bytes_, 0);
  if (!point.valid) return take(std::max<size_t>(1, have), {KeyKind::kText, "\xEF\xBF\xBD"});
  // Terminals obey C1 controls, so they are dropped.
  if (point.value >= 0x80 && point.value < 0xA0) return take(point.size, {KeyKind::kUnknown});
  return take(point.size, {KeyKind::kText, bytes_.substr(0, point.size)});
}

std::optional<Key> KeyReader::read_escape() {
  if (bytes_.size() == 1) {
    if (!given_up_) return std::nullopt;
    return take(1, {KeyKind::kEscape});
  }
  const char second = bytes_[1];
  if (second == '[') return read_control_sequence();
  if (second == 'O') {
    if (bytes_.size() < 3) {
      if (!given_up_) return std::nullopt;
      return take(2, {KeyKind::kAlt, "O"});
    }
    return take(3, {meaning(std::string_view(bytes_).substr(2, 1))});
  }
  // The first ESC is a key; the second may begin a sequence.
  if (second == kEscape) return take(1, {KeyKind::kEscape});
  if (second == '\x7f' || second == '\b') return take(2, {KeyKind::kAlt, "backspace"});
  if (second == '\r' || second == '\n') return take(2, {KeyKind::kAlt, "enter"});
  // Before a control, the ESC was a key of its own.
  if (static_cast<unsigned char>(second) < 0x20) return take(1, {KeyKind::kEscape});
  // ESC before a character is Alt with that character.
  bytes_.erase(0, 1);
  std::optional<Key> key = read_character();
  if (!key) {
    bytes_.insert(0, 1, kEscape);
    return key;
  }
  if (key->kind == KeyKind::kText) key->kind = KeyKind::kAlt;
  return key;
}

std::optional<Key> KeyReader::read_control_sequence() {
  // Linux's own console sends ESC [ [ A to E for F1 to F5.
  size_t end = bytes_.substr(2, 1) == "[" ? 3 : 2;
  // Parameter and intermediate bytes of ECMA-48.
  while (end < bytes_.size() && end < kLongestSequence &&
         (bytes_[end] >= 0x20 && bytes_[end] < 0x40)) {
    ++end;
  }
  if (end == bytes_.size() && end < kLongestSequence) {
    if (!given_up_) return std::nullopt;
    return take(bytes_.size(), {KeyKind::kUnknown});
  }
  // 0x40 to 0x7e are the final bytes. Any other byte ends the sequence too and stands for itself.
  const bool whole = bytes_[end] >= 0x40 && bytes_[end] < 0x7f;
  const size_t size = whole ? end + 1 : end;
  const std::string_view sequence = std::string_view(bytes_).substr(0, size);
  if (sequence == kPasteBegin) {
    bytes_.erase(0, size);
    pasting_ = true;
    return read_paste();
  }
  return take(size, {meaning(sequence.substr(2))});
}

std::optional<Key> KeyReader::read_paste() {
  const size_t end = bytes_.find(kPasteEnd);
  if (end == std::string::npos) return std::nullopt;  // a paste may take several reads
  pasting_ = false;
  Key key{KeyKind::kPaste, plain_text(std::string_view(bytes_).substr(0, end))};
  return take(end + kPasteEnd.size(), std::move(key));
}

}  // namespace xrun
