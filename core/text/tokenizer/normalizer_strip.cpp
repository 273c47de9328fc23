// Strip: spaces at the ends of a text are removed.

#include "core/text/tokenizer/normalizer.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

class Strip : public Normalizer {
 public:
  explicit Strip(const ComponentSpec& spec)
      : left_(spec.boolean("strip_left")), right_(spec.boolean("strip_right")) {}
  void apply(AlignedText& text) const override { strip(text, left_); }
  void apply_rest(AlignedText& text) const override { strip(text, false); }
  // In front of a space border stands a letter, so the right end that is stripped is the last one.
  Border border_after(Border border) const override {
    return border == Border::kLine && right_ ? Border::kNone : border;
  }

 private:
  void strip(AlignedText& text, bool left) const {
    const std::string_view bytes = text.text();
    size_t begin = 0, end = bytes.size();
    while (left && begin < end && is_space(bytes, begin)) begin += utf8_size(bytes[begin]);
    while (right_ && end > begin && is_space(bytes, utf8_before(bytes, end))) {
      end = utf8_before(bytes, end);
    }
    if (end - begin < bytes.size()) text = text.slice(begin, end);
  }
  static bool is_space(std::string_view text, size_t at) {
    return char_kind(utf8_character(text, at)) == CharKind::kSpace;
  }
  bool left_;
  bool right_;
};

std::unique_ptr<const Normalizer> make(const ComponentSpec& spec) {
  return std::make_unique<Strip>(spec);
}

const bool kAdded = ComponentTable<Normalizer>::add("Strip", make);

}  // namespace

}  // namespace xrun
