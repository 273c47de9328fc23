// The normalizer Precompiled of tokenizer.json: the normalization table of a SentencePiece model. A
// grapheme cluster of less than six bytes is looked up whole, and replaced if the table knows a
// prefix of it; otherwise its characters are looked up one by one.

#include "core/text/tokenizer/charsmap.h"
#include "core/text/tokenizer/normalizers.h"
#include "core/text/unicode/unicode_sets.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

// The edits that replace parts of a text, from left to right.
class Replacements {
 public:
  explicit Replacements(size_t size) { edits_.reserve(size); }
  void keep(std::string_view part) { append(part); }
  // The extra characters of a longer replacement count as inserted. The last character of a shorter
  // one (the character before it if it is empty) removes the rest of the old part.
  void replace(std::string_view old_part, std::string_view new_part) {
    changed_ = true;
    const int64_t more = int64_t(count_characters(new_part)) - int64_t(count_characters(old_part));
    append(new_part);
    for (int64_t i = 0; i < more; ++i) edits_[edits_.size() - 1 - size_t(i)].change = 1;
    if (more >= 0) return;
    if (edits_.empty()) {
      // No character before it can remove the rest: the text begins with a removed part.
      removed_ += old_part.size();
    } else {
      edits_.back().change += int32_t(more);
    }
  }
  bool changed() const { return changed_; }
  size_t removed() const { return removed_; }  // bytes before the first edit
  const std::vector<CharacterEdit>& edits() const { return edits_; }

 private:
  static size_t count_characters(std::string_view text) {
    size_t count = 0;
    for (size_t at = 0; at < text.size(); at += utf8_size(text[at])) ++count;
    return count;
  }
  void append(std::string_view part) {
    for (size_t at = 0; at < part.size(); at += utf8_size(part[at])) {
      edits_.push_back({utf8_character(part, at), 0});
    }
  }
  std::vector<CharacterEdit> edits_;
  bool changed_ = false;
  size_t removed_ = 0;
};

class PrecompiledNormalizer : public Normalizer {
 public:
  explicit PrecompiledNormalizer(const ComponentSpec& spec) : charsmap_(read_charsmap(spec)) {}

  void apply(AlignedText& text) const override {
    const std::string_view old = text.text();
    Replacements out(old.size());
    for (size_t at = 0; at < old.size();) {
      const size_t end = grapheme_end(old, at);
      add_cluster(old.substr(at, end - at), out);
      at = end;
    }
    if (!out.changed()) return;
    AlignedTextBuilder builder(text);
    builder.edit(out.removed(), old.size(), out.edits());
    AlignedText changed = builder.finish();
    // The first remaining character now counts as the start of the text, which Metaspace tests.
    if (out.removed() > 0) changed.extend_front(text.origin(0, 1).begin);
    text = std::move(changed);
  }

 private:
  static Charsmap read_charsmap(const ComponentSpec& spec) {
    const std::string where = spec.where() + ".precompiled_charsmap";
    const std::optional<std::string> bytes = decode_base64(spec.text("precompiled_charsmap"));
    XRUN_CHECK(bytes.has_value(), "{}: got text that is not base64", where);
    return Charsmap(*bytes, where);
  }
  void add_cluster(std::string_view cluster, Replacements& out) const {
    constexpr size_t kWholeLimit = 6;  // bytes; the limit of Hugging Face's tokenizers
    if (cluster.size() < kWholeLimit) {
      if (const auto found = charsmap_.find(cluster)) return out.replace(cluster, *found);
    }
    for (size_t at = 0; at < cluster.size(); at += utf8_size(cluster[at])) {
      const std::string_view part = cluster.substr(at, utf8_size(cluster[at]));
      if (const auto found = charsmap_.find(part)) {
        out.replace(part, *found);
      } else {
        out.keep(part);
      }
    }
  }

  Charsmap charsmap_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_precompiled_normalizer(const ComponentSpec& spec) {
  return make_component<Normalizer, PrecompiledNormalizer>(spec);
}

}  // namespace xrun
