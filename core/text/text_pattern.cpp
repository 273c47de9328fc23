#include "core/text/text_pattern.h"

namespace xrun {

namespace {

// A plain string; an empty one never matches.
class LiteralPattern : public TextPattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}
  void find(std::string_view text, std::vector<Stretch>& out) const override {
    size_t at = 0;
    while (!literal_.empty()) {
      const size_t hit = text.find(literal_, at);
      if (hit == std::string_view::npos) break;
      if (hit > at) out.push_back({uint32_t(at), uint32_t(hit), false});
      at = hit + literal_.size();
      out.push_back({uint32_t(hit), uint32_t(at), true});
    }
    if (at < text.size()) out.push_back({uint32_t(at), uint32_t(text.size()), false});
  }

 private:
  std::string literal_;
};

}  // namespace

std::unique_ptr<const TextPattern> make_literal_pattern(std::string literal) {
  return std::make_unique<LiteralPattern>(std::move(literal));
}

std::unique_ptr<const TextPattern> make_text_pattern(const ComponentSpec& spec) {
  const ComponentSpec pattern = spec.member("pattern");
  if (pattern.has("String")) return make_literal_pattern(pattern.text("String"));
  const std::string& regex = pattern.text("Regex");
  if (auto splitter = make_known_splitter(regex)) return splitter;
  return make_regex_pattern(regex, pattern.where());
}

}  // namespace xrun
