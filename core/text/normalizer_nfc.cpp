// NFC. Most text is in this form already and stays a view: only stretches around characters that
// NFC may change are looked at.

#include "core/base/utf8.h"
#include "core/text/nfc.h"
#include "core/text/normalizer.h"
#include "core/text/unicode.h"
#include "core/text/utf8_cursor.h"

namespace xrun {

namespace {

// Nothing below U+0300 is changed by NFC unless something above it follows.
bool is_unstable(std::string_view text, size_t at) {
  if (static_cast<unsigned char>(text[at]) < 0xCC) return false;
  return unicode_properties(utf8_character(text, at)) & kNfcUnstable;
}

// Returns where the next unstable character begins, or text.size().
size_t next_unstable(std::string_view text, size_t at) {
  while (at < text.size() && !is_unstable(text, at)) at += utf8_size(text[at]);
  return at;
}

// Applies edits to old bytes [begin, end) with the alignments that Hugging Face gives: a replaced
// character stands for the first old one, an inserted one for the old one before it.
void write_edits(const AlignedText& old, size_t begin, size_t end,
                 const std::vector<NfcEdit>& edits, AlignedTextBuilder& builder) {
  const std::string_view text = old.text();
  size_t at = begin;
  std::string bytes;
  for (const NfcEdit& edit : edits) {
    const bool replaces = edit.change <= 0 && at < end;
    if (replaces && edit.change == 0 && utf8_character(text, at) == edit.character) {
      const size_t next = at + utf8_size(text[at]);
      builder.copy(at, next);
      at = next;
      continue;
    }
    bytes.clear();
    append_utf8(bytes, edit.character);
    const size_t origin = replaces ? at : at > 0 ? utf8_before(text, at) : 0;
    builder.insert(bytes, old.character_origin(origin));
    for (int32_t taken = 0; replaces && taken <= -edit.change && at < end; ++taken) {
      at += utf8_size(text[at]);
    }
  }
}

class Nfc : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    const std::string_view old = text.text();
    size_t found = next_unstable(old, 0);
    if (found == old.size()) return;
    AlignedTextBuilder builder(text);
    std::vector<uint32_t> characters;
    for (size_t at = 0; at < old.size();) {
      const size_t begin = found > at && found < old.size() ? utf8_before(old, found) : found;
      builder.copy(at, begin);
      characters.clear();
      size_t end = begin;
      while (end < old.size() && (end <= found || is_unstable(old, end))) {
        characters.push_back(utf8_character(old, end));
        end += utf8_size(old[end]);
      }
      write_edits(text, begin, end, compose_nfc(characters), builder);
      at = end;
      found = next_unstable(old, at);
    }
    text = builder.finish();
  }
};

std::unique_ptr<const Normalizer> make(const ComponentSpec&) { return std::make_unique<Nfc>(); }

const bool kAdded = ComponentTable<Normalizer>::add("NFC", make);

}  // namespace

}  // namespace xrun
