// The normalizers of Hugging Face's tokenizers, with the same alignments. kNormalizers at the end
// lists them.

#include "core/text/tokenizer/normalizers.h"

#include "core/base/utf8.h"
#include "core/text/tokenizer/normal_form.h"
#include "core/text/tokenizer/text_pattern.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/unicode_sets.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

// Rewrites every character: `rewrite(code_point, out)` appends its replacement, or nothing to
// remove it. The replacement aligns with the old character. An unchanged text stays a view.
template <class Rewrite>
void rewrite_characters(AlignedText& text, const Rewrite& rewrite) {
  const std::string_view old = text.text();
  std::string bytes;
  // Returns true if the character at `at` changes, and sets `bytes` to its replacement.
  const auto changes = [&](size_t at) {
    bytes.clear();
    rewrite(utf8_character(old, at), bytes);
    return old.substr(at, utf8_size(old[at])) != bytes;
  };
  size_t at = 0;
  while (at < old.size() && !changes(at)) at += utf8_size(old[at]);
  if (at == old.size()) return;
  AlignedTextBuilder builder(text);
  size_t copied = 0;  // old bytes before this are written
  for (; at < old.size(); at += utf8_size(old[at])) {
    if (!changes(at)) continue;
    builder.copy(copied, at);
    if (!bytes.empty()) builder.insert(bytes, text.character_origin(at));
    copied = at + utf8_size(old[at]);
  }
  builder.copy(copied, old.size());
  text = builder.finish();
}

// NFC, NFD, NFKC, NFKD. Most text is already in these forms and stays a view: only stretches around
// characters that the form may change are normalised.
template <NormalForm form>
class FormNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    const std::string_view old = text.text();
    size_t found = next_unstable(old, 0);
    if (found == old.size()) return;
    AlignedTextBuilder builder(text);
    std::vector<uint32_t> characters;
    for (size_t at = 0; at < old.size();) {
      // One character earlier: an unstable character may compose with the one before it.
      const size_t begin = found > at && found < old.size() ? utf8_before(old, found) : found;
      builder.copy(at, begin);
      characters.clear();
      size_t end = begin;
      while (end < old.size() && (end <= found || unstable_at(old, end))) {
        characters.push_back(utf8_character(old, end));
        end += utf8_size(old[end]);
      }
      builder.edit(begin, end, normalize(characters, form));
      at = end;
      found = next_unstable(old, at);
    }
    text = builder.finish();
  }
  SafeSplit split_after(SafeSplit split) const override { return split; }

 private:
  // No form changes a character below this lead byte unless a character above it follows.
  // 0xCC leads U+0300, the first combining mark; 0xC2 leads U+0080, the first character beyond
  // ASCII.
  static constexpr unsigned char kFirstLead = form == NormalForm::kNfc ? 0xCC : 0xC2;

  static bool unstable_at(std::string_view text, size_t at) {
    if (static_cast<unsigned char>(text[at]) < kFirstLead) return false;
    return is_unstable(utf8_character(text, at), form);
  }
  // Returns the start of the next unstable character, or text.size().
  static size_t next_unstable(std::string_view text, size_t at) {
    while (true) {
      at = ascii_end(text, at);
      if (at == text.size() || unstable_at(text, at)) return at;
      at += utf8_size(text[at]);
    }
  }
};

// BertNormalizer: removes controls and turns every space into ' '; puts spaces around ideographs;
// removes accents after NFD; lowers case. strip_accents defaults to lowercase.
class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const ComponentSpec& spec)
      : clean_(spec.boolean("clean_text")),
        ideographs_(spec.boolean("handle_chinese_chars")),
        lowercase_(spec.boolean("lowercase")),
        accents_(spec.boolean("strip_accents", lowercase_)) {}

  void apply(AlignedText& text) const override {
    if (clean_) rewrite_characters(text, &clean);
    if (ideographs_) rewrite_characters(text, &space_ideograph);
    if (accents_) {
      nfd_.apply(text);
      rewrite_characters(text, [](uint32_t c, std::string& out) {
        if (!is_bert_accent(c)) append_utf8(out, c);
      });
    }
    if (lowercase_) {
      rewrite_characters(text, [](uint32_t c, std::string& out) { append_lowercase(out, c); });
    }
  }
  // clean_text turns a line feed into a space.
  SafeSplit split_after(SafeSplit split) const override {
    return split == SafeSplit::kLine ? SafeSplit::kNone : split;
  }

 private:
  static void clean(uint32_t c, std::string& out) {
    if (c >= 0x20 && c < 0x7F) {
      out.push_back(char(c));
    } else if (!is_bert_control(c)) {
      append_utf8(out, char_kind(c) == CharKind::kSpace ? U' ' : c);
    }
  }
  static void space_ideograph(uint32_t c, std::string& out) {
    const bool spaced = is_bert_ideograph(c);
    if (spaced) out.push_back(' ');
    append_utf8(out, c);
    if (spaced) out.push_back(' ');
  }

  bool clean_;
  bool ideographs_;
  bool lowercase_;
  bool accents_;
  FormNormalizer<NormalForm::kNfd> nfd_;
};

class LowercaseNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    rewrite_characters(text, [](uint32_t c, std::string& out) { append_lowercase(out, c); });
  }
  SafeSplit split_after(SafeSplit split) const override { return split; }
};

// Prepend: puts a string before a text that is not empty, aligned with its first character.
class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(const ComponentSpec& spec) : prefix_(spec.text("prepend")) {}
  void apply(AlignedText& text) const override {
    if (text.size() == 0) return;
    AlignedTextBuilder builder(text);
    builder.insert(prefix_, text.character_origin(0));
    builder.copy(0, text.size());
    text = builder.finish();
  }
  // The prefix belongs to the whole text, so only the first part gets it.
  void apply_rest(AlignedText&) const override {}
  SafeSplit split_after(SafeSplit split) const override { return split; }
  void describe(TextSpelling& spelling) const override {
    if (prefix_ != "\u2581" && prefix_ != " ") {
      spelling.exact = false;
    } else {
      spelling.add_prefix(PrefixSpace::kAlways, PrefixScope::kSections);
    }
  }

 private:
  std::string prefix_;
};

// Replace: every match of a pattern becomes a fixed content, aligned with the match's last
// character.
class ReplaceNormalizer : public Normalizer {
 public:
  explicit ReplaceNormalizer(const ComponentSpec& spec)
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
  SafeSplit split_after(SafeSplit split) const override {
    if (!marks_spaces_) return SafeSplit::kNone;
    // The space before the rest of the text has become a mark.
    return split == SafeSplit::kSpace ? SafeSplit::kMark : split;
  }
  void describe(TextSpelling& spelling) const override {
    if (marks_spaces_) {
      spelling.marks_spaces = true;
    } else {
      spelling.exact = false;
    }
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  std::string content_;
  bool marks_spaces_;  // replaces " " by U+2581, as SentencePiece does
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(const ComponentSpec& spec)
      : stages_(make_each(spec.list("normalizers"), &make_normalizer)) {
    for (const ComponentSpec& stage : spec.list("normalizers")) paths_.push_back(stage.where());
  }
  void apply(AlignedText& text) const override {
    for (size_t i = 0; i < stages_.size(); ++i) {
      run_stage(paths_[i], [&] { stages_[i]->apply(text); });
    }
  }
  void apply_rest(AlignedText& text) const override {
    for (size_t i = 0; i < stages_.size(); ++i) {
      run_stage(paths_[i], [&] { stages_[i]->apply_rest(text); });
    }
  }
  SafeSplit split_after(SafeSplit split) const override {
    for (const auto& stage : stages_) split = stage->split_after(split);
    return split;
  }
  void describe(TextSpelling& spelling) const override {
    for (const auto& stage : stages_) stage->describe(spelling);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> stages_;
  std::vector<std::string> paths_;  // the path of each stage in the file
};

// Strip: removes spaces at the ends of a text.
class StripNormalizer : public Normalizer {
 public:
  explicit StripNormalizer(const ComponentSpec& spec)
      : left_(spec.boolean("strip_left")), right_(spec.boolean("strip_right")) {}
  void apply(AlignedText& text) const override { strip(text, left_); }
  void apply_rest(AlignedText& text) const override { strip(text, false); }
  // A letter precedes a kSpace split, so that only a kLine split leaves spaces to strip before it.
  SafeSplit split_after(SafeSplit split) const override {
    return split == SafeSplit::kLine && right_ ? SafeSplit::kNone : split;
  }

 private:
  void strip(AlignedText& text, bool left) const {
    const std::string_view bytes = text.text();
    const auto is_blank = [&](size_t at) {
      return char_kind(utf8_character(bytes, at)) == CharKind::kSpace;
    };
    size_t begin = 0, end = bytes.size();
    while (left && begin < end && is_blank(begin)) begin += utf8_size(bytes[begin]);
    while (right_ && end > begin && is_blank(utf8_before(bytes, end))) {
      end = utf8_before(bytes, end);
    }
    if (end - begin < bytes.size()) text = text.slice(begin, end);
  }
  bool left_;
  bool right_;
};

// StripAccents: removes combining marks. It does not decompose, so files put an NFD before it.
class StripAccentsNormalizer : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    rewrite_characters(text, [](uint32_t c, std::string& out) {
      if (!is_accent(c)) append_utf8(out, c);
    });
  }
  SafeSplit split_after(SafeSplit split) const override { return split; }
};

constexpr ComponentType<Normalizer> kNormalizers[] = {
    {"BertNormalizer", make_component<Normalizer, BertNormalizer>},
    {"ByteLevel", make_byte_level_normalizer},
    {"Lowercase", make_component<Normalizer, LowercaseNormalizer>},
    {"NFC", make_component<Normalizer, FormNormalizer<NormalForm::kNfc>>},
    {"NFD", make_component<Normalizer, FormNormalizer<NormalForm::kNfd>>},
    {"NFKC", make_component<Normalizer, FormNormalizer<NormalForm::kNfkc>>},
    {"NFKD", make_component<Normalizer, FormNormalizer<NormalForm::kNfkd>>},
    {"Precompiled", make_precompiled_normalizer},
    {"Prepend", make_component<Normalizer, PrependNormalizer>},
    {"Replace", make_component<Normalizer, ReplaceNormalizer>},
    {"Sequence", make_component<Normalizer, SequenceNormalizer>},
    {"Strip", make_component<Normalizer, StripNormalizer>},
    {"StripAccents", make_component<Normalizer, StripAccentsNormalizer>},
};

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const ComponentSpec& spec) {
  return make_from_table<Normalizer>(kNormalizers, spec);
}

}  // namespace xrun
