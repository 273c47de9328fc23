// Replace: every match of a pattern by a fixed content, which stands for the match's last
// character, as in Hugging Face's alignments.

#include "core/text/tokenizer/normalizer.h"
#include "core/text/tokenizer/text_pattern.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

class Replace : public Normalizer {
 public:
  explicit Replace(const ComponentSpec& spec)
      : pattern_(make_text_pattern(spec)),
        content_(spec.text("content")),
        marks_spaces_(content_ == "\u2581" && spec.member("pattern").has("String") &&
                      spec.member("pattern").text("String") == " ") {}

  void apply(AlignedText& text) const override {
    std::vector<Stretch> stretches;
    pattern_->find(text.text(), stretches);
    if (stretches.empty() || (stretches.size() == 1 && !stretches[0].is_match)) return;
    AlignedTextBuilder builder(text);
    for (const Stretch& s : stretches) {
      if (!s.is_match) {
        builder.copy(s.begin, s.end);
      } else if (s.end > 0) {
        builder.insert(content_, text.character_origin(s.end - 1));
      } else {
        builder.insert(content_, {0, 0});  // an empty match before the text
      }
    }
    text = builder.finish();
  }
  Border border_after(Border border) const override {
    if (!marks_spaces_) return Border::kNone;
    return border == Border::kSpace ? Border::kMark : border;
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  std::string content_;
  bool marks_spaces_;  // as SentencePiece does
};

std::unique_ptr<const Normalizer> make(const ComponentSpec& spec) {
  return std::make_unique<Replace>(spec);
}

const bool kAdded = ComponentTable<Normalizer>::add("Replace", make);

}  // namespace

}  // namespace xrun
