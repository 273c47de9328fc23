#include "core/text/tokenizer/text_cleanup.h"

#include <utility>

namespace xrun {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  while (!from.empty()) {
    const size_t hit = text.find(from, at);
    if (hit == std::string_view::npos) break;
    out.append(text, at, hit - at).append(to);
    at = hit + from.size();
  }
  return out.append(text.substr(at));
}

std::string without_token_spaces(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) {
    if (text.find(from) != std::string::npos) text = replaced(text, from, to);
  }
  return text;
}

}  // namespace xrun
