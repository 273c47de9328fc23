// BertNormalizer: controls are removed and every space becomes ' '; spaces go around ideographs;
// accents are removed after NFD; letters become lower case. Accents go where lower case is asked
// for, unless strip_accents says otherwise.

#include "core/base/utf8.h"
#include "core/text/tokenizer/character_filter.h"
#include "core/text/tokenizer/normalizer.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/unicode_sets.h"

namespace xrun {

namespace {

void clean(uint32_t c, std::string& out) {
  if (c >= 0x20 && c < 0x7F) {
    out.push_back(char(c));
  } else if (!is_bert_control(c)) {
    append_utf8(out, char_kind(c) == CharKind::kSpace ? U' ' : c);
  }
}

void space_ideograph(uint32_t c, std::string& out) {
  const bool spaced = is_bert_ideograph(c);
  if (spaced) out.push_back(' ');
  append_utf8(out, c);
  if (spaced) out.push_back(' ');
}

class Bert : public Normalizer {
 public:
  explicit Bert(const ComponentSpec& spec)
      : clean_(spec.boolean("clean_text")),
        ideographs_(spec.boolean("handle_chinese_chars")),
        lowercase_(spec.boolean("lowercase")),
        accents_(spec.boolean("strip_accents", lowercase_)),
        nfd_json_(parse_json(R"({"type": "NFD"})", "NFD")),
        nfd_(ComponentTable<Normalizer>::make({nfd_json_, spec.where()})) {}

  void apply(AlignedText& text) const override {
    if (clean_) rewrite_characters(text, &clean);
    if (ideographs_) rewrite_characters(text, &space_ideograph);
    if (accents_) {
      nfd_->apply(text);
      rewrite_characters(text, [](uint32_t c, std::string& out) {
        if (!is_bert_accent(c)) append_utf8(out, c);
      });
    }
    if (lowercase_) {
      rewrite_characters(text, [](uint32_t c, std::string& out) { append_lowercase(out, c); });
    }
  }
  // A line feed becomes a space.
  Border border_after(Border border) const override {
    return border == Border::kLine ? Border::kNone : border;
  }

 private:
  bool clean_;
  bool ideographs_;
  bool lowercase_;
  bool accents_;
  Json nfd_json_;
  std::unique_ptr<const Normalizer> nfd_;
};

std::unique_ptr<const Normalizer> make(const ComponentSpec& spec) {
  return std::make_unique<Bert>(spec);
}

const bool kAdded = ComponentTable<Normalizer>::add("BertNormalizer", make);

}  // namespace

}  // namespace xrun
