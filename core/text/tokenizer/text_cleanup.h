#pragma once
// Undoing what tokenisers of English put between words and punctuation.

#include <string>
#include <string_view>

namespace xrun {

// Returns the text with every occurrence of `from` replaced, from left to right; an empty `from`
// replaces nothing.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

// Returns the text without the spaces before . ? ! , and English contractions, as the decoders
// WordPiece and CTC clean it (" do not" becomes " don't" there).
std::string without_token_spaces(std::string text);

}  // namespace xrun
