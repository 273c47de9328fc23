#pragma once
// Small text functions: counts and sizes as people read them, blanks, shell words, did-you-mean.

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// A half-open range of bytes of a string.
struct ByteRange {
  uint32_t begin;
  uint32_t end;
  bool operator==(const ByteRange&) const = default;
};

// ---- numbers

// "12,345".
std::string count_text(int64_t value);
// "1 pair", "1,024 tokens"; `ending` makes the plural ("2 micro-batches").
std::string counted(int64_t count, std::string_view noun, std::string_view ending = "s");
// "512 KB", "1.6 GB" (powers of 1000).
std::string format_bytes(double bytes);

// Returns the integer that the whole text spells in decimal, with or without a minus sign; nullopt
// for any other text and beyond int64.
std::optional<int64_t> whole_number_of(std::string_view text);

// Returns the shortest decimal that reads back as the same double, in Python's spelling.
std::string shortest_decimal(double value);

// Clears the sign of a NaN, so that it prints as "nan", never as "-nan"; other numbers pass.
inline double plain_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

// ---- pieces of text

// Returns the view without blanks, tabs and line ends at its start and end.
constexpr std::string_view kBlanks = " \t\r\n";
std::string_view trimmed(std::string_view text);

// Returns the text with its ASCII letters in lower case.
std::string lower_case(std::string_view text);

// Quotes a string as one word of a POSIX shell, for commands that messages propose; a word that
// needs no quotes is returned unchanged.
std::string shell_word(std::string_view text);

// Appends an item to a list that a message shows: "a", then "a, b".
void add_item(std::string& list, std::string_view item, std::string_view separator = ", ");

// Returns the items with the separator between them.
std::string joined(std::span<const std::string> items, std::string_view separator);

// Returns the first `most` names of a list: "a, b", or "a, b and 3 more".
std::string listed(std::span<const std::string> names, size_t most);

// ---- did you mean

// Returns the number of insertions, deletions, replacements and adjacent swaps of bytes that make b
// of a, without changing a byte twice (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b);

// Returns the nearest of `known` within a distance of 2 and at most a third of the length of `name`
// (at least 1), or "" if none is near. Ties go to the longest common prefix with `name`, then to
// the earlier entry.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// Returns "; did you mean `optim.lr`?" with `prefix` before the nearest of `known`; "" if none is
// near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known,
                         std::string_view prefix = "");

}  // namespace xrun
