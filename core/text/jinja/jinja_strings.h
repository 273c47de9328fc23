#pragma once
// Python's str methods as functions of marked strings; filters and methods share them. A result
// that can be far longer than its input is charged to the budget before it is built. Case and
// classes of characters are in jinja_letters.cpp.

#include <functional>
#include <string_view>
#include <vector>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

enum class StripSide : uint8_t { kLeft = 1, kRight = 2, kBoth = 3 };

// Removes white space, or any of the code points in `chars`, from the ends.
TextPtr strip_text(const TextPtr& text, StripSide side, const Text* chars);

// Splits at white space (a null separator) or at each separator, at most `most` times (-1: all).
// Throws Fault on an empty separator.
std::vector<TextPtr> split_text(const TextPtr& text, const Text* separator, int64_t most,
                                Budget& budget);
std::vector<TextPtr> split_lines(const TextPtr& text, Budget& budget);

// Replaces the first `most` (-1: all) occurrences of `from`.
TextPtr replace_text(const Text& text, const Text& from, const Text& to, int64_t most,
                     Budget& budget);

TextPtr join_list(const Text& separator, const std::vector<TextPtr>& texts, Budget& budget);

// Rewrites each code point: change(out, point, at) appends the replacement of `point`, which begins
// at byte `at` of the text, to `out`.
using PointChange = std::function<void(std::string&, uint32_t, size_t)>;
TextPtr map_text(const Text& text, const PointChange& change);

TextPtr upper_text(const Text& text);
TextPtr lower_text(const Text& text);
TextPtr capitalize_text(const Text& text);
TextPtr title_text(const Text& text);   // str.title: a word begins after anything but a letter
TextPtr title_words(const Text& text);  // the filter `title`: a word begins after a space or -({[<

bool is_space_point(uint32_t point);  // str.isspace
bool is_digit_point(uint32_t point);  // str.isdigit: decimals, superscripts, circled digits, ...
// Returns the value of a decimal digit of any script, or -1.
int decimal_value(uint32_t point);

}  // namespace xrun::jinja
