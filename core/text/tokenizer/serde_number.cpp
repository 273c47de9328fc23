#include "core/text/tokenizer/serde_number.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace xrun {

namespace {

constexpr int64_t kMostPower = 308;  // 10 to which is a double
constexpr int64_t kMostExponent = int64_t{1} << 31;

double power_of_ten(int64_t exponent) {
  static const std::vector<double> kPowers = [] {
    std::vector<double> powers;
    for (int64_t e = 0; e <= kMostPower; ++e) {
      powers.push_back(std::strtod(fmt::format("1e{}", e).c_str(), nullptr));
    }
    return powers;
  }();
  return kPowers[static_cast<size_t>(exponent)];
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Of "e-5" and the like; 0 of nothing.
int64_t read_exponent(std::string_view text) {
  if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return 0;
  text.remove_prefix(1);
  const bool negative = text.starts_with('-');
  int64_t exponent = 0;
  for (const char c : text) {
    if (is_digit(c)) exponent = std::min(10 * exponent + (c - '0'), kMostExponent);
  }
  return negative ? -exponent : exponent;
}

double scaled(double value, int64_t exponent) {
  for (; exponent < -kMostPower && value > 0; exponent += kMostPower) {
    value /= power_of_ten(kMostPower);
  }
  if (exponent < 0) return value > 0 ? value / power_of_ten(-exponent) : value;
  for (; exponent > kMostPower && value > 0 && std::isfinite(value); exponent -= kMostPower) {
    value *= power_of_ten(kMostPower);
  }
  return value > 0 ? value * power_of_ten(std::min(exponent, kMostPower)) : value;
}

}  // namespace

double serde_number(std::string_view number) {
  const bool negative = number.starts_with('-');
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool is_fraction = false, is_full = false;
  size_t at = negative ? 1 : 0;
  for (; at < number.size() && (number[at] == '.' || is_digit(number[at])); ++at) {
    if (number[at] == '.') {
      is_fraction = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(number[at] - '0');
    is_full = is_full || digits > (UINT64_MAX - digit) / 10;
    if (!is_full) digits = 10 * digits + digit;
    if (is_full != is_fraction) exponent += is_full ? 1 : -1;
  }
  const double value =
      scaled(static_cast<double>(digits), exponent + read_exponent(number.substr(at)));
  return negative ? -value : value;
}

}  // namespace xrun
