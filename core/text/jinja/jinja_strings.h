#pragma once
// Python's str methods as functions of marked texts; filters and methods share them.

#include <functional>
#include <string_view>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

enum class Side : uint8_t { kLeft = 1, kRight = 2, kBoth = 3 };

// Removes white space, or any of the code points in `chars`, from the ends.
TextPtr strip_text(const TextPtr& text, Side side, const Text* chars);

// What these make of a text can be far more than the text: each charges the budget for it before it
// takes the memory.

// Splits at white space (a null separator) or at each separator, at most `most` times (-1: all),
// from the left or from the right. Throws Fault on an empty separator.
std::vector<TextPtr> split_text(const TextPtr& text, const Text* separator, int64_t most,
                                Budget& budget, bool from_right = false);
std::vector<TextPtr> split_lines(const TextPtr& text, bool keep_ends, Budget& budget);

// Replaces at most `most` (-1: all) places of `from`.
TextPtr replace_text(const Text& text, const Text& from, const Text& to, int64_t most,
                     Budget& budget);

TextPtr join_list(const Text& separator, const std::vector<TextPtr>& parts, Budget& budget);

// Rewrites each code point: `change` appends to its first argument what stands for the second,
// which begins at a byte.
using PointChange = std::function<void(std::string&, uint32_t, size_t)>;
TextPtr map_text(const Text& text, const PointChange& change);
// Appends the lower case of the code point at bytes[at]; a sigma that ends a word has its own.
void append_lower_in(std::string& out, uint32_t point, std::string_view bytes, size_t at);
TextPtr upper_text(const Text& text);
TextPtr lower_text(const Text& text);
TextPtr fold_text(const Text& text);  // str.casefold
TextPtr capitalize_text(const Text& text);
TextPtr title_text(const Text& text);  // str.title: words begin behind what is no letter

// Returns text with `fill` around it up to a width in code points.
TextPtr pad_text(const TextPtr& text, int64_t width, const Text& fill, Side side);

// Whether some character has this case and none the other: str.islower, str.isupper.
bool is_lower_text(std::string_view bytes);
bool is_upper_text(std::string_view bytes);
int64_t count_of(const Text& text, std::string_view part);

}  // namespace xrun::jinja
