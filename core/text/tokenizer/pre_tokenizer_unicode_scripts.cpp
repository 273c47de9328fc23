// UnicodeScripts: cuts where the script changes. Characters of every script stay with what precedes
// them; those before the first of a script are left out, as in Hugging Face.

#include "core/text/tokenizer/pre_tokenizer.h"
#include "core/text/unicode/unicode_sets.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

class UnicodeScripts : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    std::vector<ByteRange> cut;
    for (const ByteRange piece : list.pieces) add_pieces(list.text.text(), piece, cut);
    list.pieces = std::move(cut);
  }

 private:
  static void add_pieces(std::string_view text, ByteRange piece, std::vector<ByteRange>& out) {
    uint8_t last = kAnyScript;
    for (uint32_t at = piece.begin; at < piece.end; at += utf8_size(text[at])) {
      const uint8_t script = script_of(utf8_character(text, at));
      if (script == kAnyScript || script == last) continue;
      if (last != kAnyScript) out.back().end = at;
      out.push_back({at, piece.end});
      last = script;
    }
  }
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec&) {
  return std::make_unique<UnicodeScripts>();
}

const bool kAdded = ComponentTable<PreTokenizer>::add("UnicodeScripts", make);

}  // namespace

}  // namespace xrun
