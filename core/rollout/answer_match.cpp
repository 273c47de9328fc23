#include "core/rollout/answer_match.h"

#include <algorithm>

namespace xrun {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_word(char c) {
  const char low = lower(c);
  return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9');
}

}  // namespace

bool holds_answer(std::string_view text, std::string_view answer) {
  if (answer.empty()) return false;
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  for (auto at = text.begin();; ++at) {
    at = std::search(at, text.end(), answer.begin(), answer.end(), same);
    if (at == text.end()) return false;
    const auto behind = at + static_cast<std::string_view::difference_type>(answer.size());
    const bool begins = at == text.begin() || !is_word(at[-1]) || !is_word(answer.front());
    const bool ends = behind == text.end() || !is_word(*behind) || !is_word(answer.back());
    if (begins && ends) return true;
  }
}

}  // namespace xrun
