// NFC, NFD, NFKC, NFKD. Most text is in these forms already and stays a view: only stretches around
// characters that the form may change are looked at.

#include "core/text/tokenizer/normal_form.h"
#include "core/text/tokenizer/normalizer.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

template <NormalForm form>
class NormalFormNormalizer : public Normalizer {
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
  Border border_after(Border border) const override { return border; }

 private:
  // No form changes a character below this lead byte unless something above it follows.
  static constexpr unsigned char kFirstLead = form == NormalForm::kNfc ? 0xCC : 0xC2;

  static bool unstable_at(std::string_view text, size_t at) {
    if (static_cast<unsigned char>(text[at]) < kFirstLead) return false;
    return is_unstable(utf8_character(text, at), form);
  }
  // Returns where the next unstable character begins, or text.size().
  static size_t next_unstable(std::string_view text, size_t at) {
    while (true) {
      at = ascii_end(text, at);
      if (at == text.size() || unstable_at(text, at)) return at;
      at += utf8_size(text[at]);
    }
  }
};

template <NormalForm form>
std::unique_ptr<const Normalizer> make(const ComponentSpec&) {
  return std::make_unique<NormalFormNormalizer<form>>();
}

const bool kAdded[] = {ComponentTable<Normalizer>::add("NFC", make<NormalForm::kNfc>),
                       ComponentTable<Normalizer>::add("NFD", make<NormalForm::kNfd>),
                       ComponentTable<Normalizer>::add("NFKC", make<NormalForm::kNfkc>),
                       ComponentTable<Normalizer>::add("NFKD", make<NormalForm::kNfkd>)};

}  // namespace

}  // namespace xrun
