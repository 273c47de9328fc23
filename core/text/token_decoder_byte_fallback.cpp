// ByteFallback: a run of tokens <0x00> to <0xFF> becomes its text; a run that is not UTF-8 becomes
// one U+FFFD a token.

#include "core/base/utf8.h"
#include "core/text/token_decoder.h"

namespace xrun {

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns the byte that a token spells, or -1.
int spelled_byte(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = hex_value(token[3]), low = hex_value(token[4]);
  // Rust's parser takes a sign before a digit, and so does Hugging Face: <0x+5>.
  if (token[3] == '+' && low >= 0) return low;
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

class ByteFallback : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string run;
    const auto flush = [&] {
      if (is_valid_utf8(run)) {
        if (!run.empty()) out.push_back(run);
      } else {
        out.insert(out.end(), run.size(), "\uFFFD");
      }
      run.clear();
    };
    for (std::string& token : tokens) {
      const int byte = spelled_byte(token);
      if (byte >= 0) {
        run.push_back(char(byte));
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }
};

std::unique_ptr<const TokenDecoder> make(const ComponentSpec&) {
  return std::make_unique<ByteFallback>();
}

const bool kAdded = ComponentTable<TokenDecoder>::add("ByteFallback", make);

}  // namespace

}  // namespace xrun
