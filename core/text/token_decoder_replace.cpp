// Replace: every match of a pattern by a fixed content.

#include "core/text/text_pattern.h"
#include "core/text/token_decoder.h"

namespace xrun {

namespace {

class Replace : public TokenDecoder {
 public:
  explicit Replace(const ComponentSpec& spec)
      : pattern_(make_text_pattern(spec)), content_(spec.text("content")) {}
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<Stretch> stretches;
    for (std::string& token : tokens) {
      stretches.clear();
      pattern_->find(token, stretches);
      std::string changed;
      for (const Stretch& s : stretches) {
        changed += s.is_match ? std::string_view(content_)
                              : std::string_view(token).substr(s.begin, s.end - s.begin);
      }
      token = std::move(changed);
    }
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  std::string content_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<Replace>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("Replace", make);

}  // namespace

}  // namespace xrun
