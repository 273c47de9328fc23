// Strip: takes a character off the ends of every token, a limited number of times.

#include "core/text/token_decoder.h"
#include "core/text/utf8_cursor.h"

namespace xrun {

namespace {

class Strip : public TokenDecoder {
 public:
  explicit Strip(const ComponentSpec& spec)
      : content_(spec.text("content")), start_(spec.integer("start")), stop_(spec.integer("stop")) {
    XRUN_CHECK(!content_.empty() && utf8_size(content_[0]) == content_.size(),
               "{}.content: got \"{}\", wanted one character", spec.where(), content_);
    XRUN_CHECK(start_ >= 0 && stop_ >= 0, "{}: start and stop must not be negative", spec.where());
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) {
        rest.remove_prefix(content_.size());
      }
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) {
        rest.remove_suffix(content_.size());
      }
      if (rest.size() < token.size()) token = std::string(rest);
    }
  }

 private:
  std::string content_;
  int64_t start_;
  int64_t stop_;
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec& spec) {
  return std::make_unique<Strip>(spec);
}

const bool kAdded = ComponentTable<TokenDecoder>::add("Strip", make);

}  // namespace

}  // namespace xrun
