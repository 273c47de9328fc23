#pragma once
// Whether a model's text gives a known short answer.

#include <string_view>

namespace xrun {

// Whether `text` has `answer` in it as whole words, in either case: where the answer begins or ends
// with a letter or a digit, no other stands beside it. Letters are those of ASCII, so that an
// answer may touch a word of a script without spaces. An empty answer is in no text.
bool holds_answer(std::string_view text, std::string_view answer);

}  // namespace xrun
