// All functions work on bytes; none depends on the locale.

#include "core/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

namespace xrun {

std::string count_text(int64_t value) {
  std::string text = std::to_string(value);
  // A minus sign is not a digit to group.
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::optional<int64_t> whole_number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string counted(int64_t count, std::string_view noun, std::string_view ending) {
  return count_text(count) + " " + std::string(noun) + std::string(count == 1 ? "" : ending);
}

// Powers of 1000, as disks and network tools count.
std::string format_bytes(double bytes) {
  constexpr const char* kUnits[] = {"bytes", "KB", "MB", "GB", "TB"};
  size_t unit = 0;
  // 999.5 would round to "1000 KB", and 9.96 to "10.0 KB".
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  const bool whole = unit == 0 || bytes >= 9.95;
  const std::string number = fmt::format("{:.{}f}", bytes, whole ? 0 : 1);
  return number + " " + (unit == 0 && number == "1" ? "byte" : kUnits[unit]);
}

std::string shortest_decimal(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  // Python's repr: plain digits for 1e-4 <= |x| < 1e16, else an exponent of two digits or more.
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value, format);
  std::string text(buffer, result.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string quoted = "'";
  // Nothing is special inside single quotes except the quote: close, \', open again.
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

void add_item(std::string& list, std::string_view item, std::string_view separator) {
  if (!list.empty()) list += separator;
  list += item;
}

std::string joined(std::span<const std::string> items, std::string_view separator) {
  return fmt::format("{}", fmt::join(items, separator));
}

std::string listed(std::span<const std::string> names, size_t most) {
  std::string text;
  for (const std::string& name : names.first(std::min(most, names.size()))) add_item(text, name);
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

// Optimal string alignment: cost[i][j] is the distance between the first i bytes of a and the first
// j of b.
int edit_distance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  // The first row and column: an empty text against i or j bytes.
  std::vector<int> cost((a.size() + 1) * width);
  for (size_t i = 0; i <= a.size(); ++i) cost[i * width] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) cost[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      // Insertion, deletion, replacement.
      int best = std::min({cost[(i - 1) * width + j] + 1, cost[i * width + j - 1] + 1,
                           cost[(i - 1) * width + j - 1] + change});
      // Two swapped neighbours are one mistake.
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = std::min(best, cost[(i - 2) * width + j - 2] + 1);
      }
      cost[i * width + j] = best;
    }
  }
  return cost.back();
}

namespace {

size_t common_beginning(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

}  // namespace

// Three of four letters right is a slip; two of four is another word ("gama" and "gemm").
std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  // At two changes a short name resembles nearly any other.
  const int limit = std::min(2, std::max(1, static_cast<int>(name.size()) / 3));
  int best = limit + 1;
  std::string nearest;
  for (const std::string& candidate : known) {
    const int distance = edit_distance(name, candidate);
    const bool tie = distance == best && !nearest.empty();
    if (distance < best ||
        (tie && common_beginning(name, candidate) > common_beginning(name, nearest))) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known,
                         std::string_view prefix) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? "" : fmt::format("; did you mean `{}{}`?", prefix, near);
}

}  // namespace xrun
