// Metaspace: the mark becomes a space, and nothing in the first token if it was put there.

#include "core/text/metaspace.h"
#include "core/text/token_decoder.h"

namespace xrun {

namespace {

class Metaspace : public TokenDecoder {
 public:
  explicit Metaspace(const ComponentSpec& spec) : options_(read_metaspace(spec)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool prefixed = i == 0 && options_.scheme != PrependScheme::kNever;
      const std::string_view old = tokens[i], mark = options_.replacement;
      std::string changed;
      for (size_t at = 0; at < old.size();) {
        const size_t hit = std::min(old.find(mark, at), old.size());
        changed.append(old, at, hit - at);
        if (hit < old.size() && !prefixed) changed += ' ';
        at = hit + mark.size();
      }
      tokens[i] = std::move(changed);
    }
  }

 private:
  MetaspaceOptions options_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<Metaspace>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("Metaspace", make);

}  // namespace

}  // namespace xrun
