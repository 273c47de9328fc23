#pragma once
// Names with what they mean, in two columns.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xrun {

// A line a pair, the meanings below each other and broken at blanks to fit `width`; where names are
// too wide for that, each meaning stands on lines of its own. Each line ends with a newline.
std::string word_list(const std::vector<std::pair<std::string, std::string>>& words, int width);

// Text broken at blanks into lines of at most `width` columns; a wider word is split between
// characters, a path behind a '/' where one is near.
std::vector<std::string> broken_lines(std::string_view text, int width);

}  // namespace xrun
