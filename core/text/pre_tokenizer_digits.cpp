// Digits: cuts numbers off, in runs or digit by digit.

#include "core/text/pre_tokenizer.h"
#include "core/text/unicode.h"
#include "core/text/utf8_cursor.h"

namespace xrun {

namespace {

class DigitPattern : public TextPattern {
 public:
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t next = at + utf8_size(text[at]);
      if (is_digit(text, at)) {
        if (done < at) out.push_back({uint32_t(done), uint32_t(at), false});
        out.push_back({uint32_t(at), uint32_t(next), true});
        done = next;
      }
      at = next;
    }
    if (done < text.size()) out.push_back({uint32_t(done), uint32_t(text.size()), false});
  }

 private:
  static bool is_digit(std::string_view text, size_t at) {
    const auto c = static_cast<unsigned char>(text[at]);
    return c < 128 ? c >= '0' && c <= '9' : is_numeric(utf8_character(text, at));
  }
};

class Digits : public PreTokenizer {
 public:
  explicit Digits(const ComponentSpec& spec)
      : behavior_(spec.boolean("individual_digits", false) ? SplitBehavior::kIsolated
                                                           : SplitBehavior::kContiguous) {}
  void apply(PieceList& list) const override {
    split_pieces(list, DigitPattern(), behavior_, false);
  }

 private:
  SplitBehavior behavior_;
};

std::unique_ptr<const PreTokenizer> make(const ComponentSpec& spec) {
  return std::make_unique<Digits>(spec);
}

const bool kAdded = ComponentTable<PreTokenizer>::add("Digits", make);

}  // namespace

}  // namespace xrun
