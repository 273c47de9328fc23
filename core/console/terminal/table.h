#pragma once
// Lays out text for a terminal: aligned tables, lists of names and meanings, broken lines, bars.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xrun {

enum class Align { kLeft, kRight };

// Rows of cells under a header, columns two spaces apart, no borders.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header, std::vector<Align> align = {});
  // Missing cells are empty. Throws Error if there are more cells than columns.
  void add(std::vector<std::string> cells);
  // Returns lines, each with a newline and without trailing spaces; "" without rows. No line is
  // wider than `width` (0: no limit): cells are cut with an ellipsis, in the widest columns first,
  // in right-aligned ones (numbers) last.
  std::string text(int width = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<Align> align_;
};

// Returns each name with its meaning, which is aligned and broken at blanks to fit `width`. If the
// names are too wide, meanings begin on the line below. Each line ends with a newline.
std::string word_list(const std::vector<std::pair<std::string, std::string>>& words, int width);

// The treatment of a word that is wider than a line.
enum class WideWord {
  kSplit,         // split between characters, a path after a nearby '/'
  kPathOverflows  // a path stays whole, so that it can be copied; other words are split
};

// Breaks text at blanks into lines of at most `width` columns.
std::vector<std::string> broken_lines(std::string_view text, int width,
                                      WideWord wide = WideWord::kSplit);

// Returns a histogram as one line: a block of eight heights per count, relative to the largest
// count; a blank for 0, the lowest block for small counts.
std::string bar_line(std::span<const int64_t> counts);

// Returns the value below which `share` (0 to 1) of the finite values lie, without interpolation;
// NaN if there are none.
double quantile(std::vector<double> values, double share);

}  // namespace xrun
