#include "core/text/tokenizer/text_pattern.h"

#include <array>

#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

// A plain string, not empty.
class LiteralPattern : public TextPattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    size_t at = 0;
    while (true) {
      const size_t hit = text.find(literal_, at);
      if (hit == std::string_view::npos) break;
      if (hit > at) out.push_back({uint32_t(at), uint32_t(hit), false});
      at = hit + literal_.size();
      out.push_back({uint32_t(hit), uint32_t(at), true});
    }
    if (at < text.size()) out.push_back({uint32_t(at), uint32_t(text.size()), false});
  }
  // Around a mark there is no space for a space to match.
  Border border_after(Border border) const override {
    return literal_ == " " && border == Border::kMark ? border : Border::kNone;
  }

 private:
  std::string literal_;
};

class CharacterPattern : public TextPattern {
 public:
  explicit CharacterPattern(bool (*test)(uint32_t)) : test_(test) {
    for (uint32_t c = 0; c < 128; ++c) ascii_[c] = test(c);
  }
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t next = at + utf8_size(text[at]);
      if (matches(text, at)) {
        if (done < at) out.push_back({uint32_t(done), uint32_t(at), false});
        out.push_back({uint32_t(at), uint32_t(next), true});
        done = next;
      }
      at = next;
    }
    if (done < text.size()) out.push_back({uint32_t(done), uint32_t(text.size()), false});
  }

 private:
  bool matches(std::string_view text, size_t at) const {
    const auto c = static_cast<unsigned char>(text[at]);
    return c < 128 ? ascii_[c] : test_(utf8_character(text, at));
  }
  bool (*test_)(uint32_t);
  std::array<bool, 128> ascii_;
};

}  // namespace

std::unique_ptr<const TextPattern> make_character_pattern(bool (*test)(uint32_t code_point)) {
  return std::make_unique<CharacterPattern>(test);
}

std::unique_ptr<const TextPattern> make_literal_pattern(std::string literal) {
  return std::make_unique<LiteralPattern>(std::move(literal));
}

std::unique_ptr<const TextPattern> make_text_pattern(const ComponentSpec& spec) {
  const ComponentSpec pattern = spec.member("pattern");
  // The package makes a regex of the string: an empty one matches before every character.
  if (pattern.has("String") && !pattern.text("String").empty()) {
    return make_literal_pattern(pattern.text("String"));
  }
  if (pattern.has("String")) return make_regex_pattern("", pattern.where());
  const std::string& regex = pattern.text("Regex");
  if (auto splitter = make_known_splitter(regex)) return splitter;
  return make_regex_pattern(regex, pattern.where());
}

}  // namespace xrun
