// FixedLength: pieces of a number of characters.

#include "core/text/tokenizer/pre_tokenizer.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(const ComponentSpec& spec)
      : length_(spec.has("length") ? spec.integer("length") : 5) {
    XRUN_CHECK(length_ > 0, "{}.length: got {}, wanted at least 1", spec.where(), length_);
  }
  void apply(PieceList& list) const override {
    const std::string_view text = list.text.text();
    std::vector<ByteRange> cut;
    for (const ByteRange piece : list.pieces) {
      for (uint32_t at = piece.begin; at < piece.end;) {
        uint32_t end = at;
        for (int64_t i = 0; i < length_ && end < piece.end; ++i) end += utf8_size(text[end]);
        cut.push_back({at, end});
        at = end;
      }
    }
    list.pieces = std::move(cut);
  }

 private:
  int64_t length_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<FixedLength>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("FixedLength", make);

}  // namespace

}  // namespace xrun
