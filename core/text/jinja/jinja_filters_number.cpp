// Filters that make numbers.

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_arguments.h"
#include "core/text/jinja/jinja_filters.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_points.h"

namespace xrun::jinja {

namespace {

// Returns a number as C spells it: without the white space around it, with the digits of any script
// as ASCII, without a plus sign, and without underscores where each stands between two digits. ""
// if the text is none.
std::string plain_number(std::string_view text) {
  std::string out;
  bool blank = false;  // behind the number
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = read_utf8(text, at);
    at += point.size;
    if (is_space_point(point.value)) {
      blank = !out.empty();
      continue;
    }
    const int digit = point.value < 0x80 ? -1 : decimal_value(point.value);
    if (blank || (point.value >= 0x80 && digit < 0)) return "";
    out += static_cast<char>(digit < 0 ? point.value : static_cast<uint32_t>('0' + digit));
  }
  if (out.starts_with('+')) {
    out.erase(0, 1);
    if (out.starts_with('-')) return "";
  }
  return out;
}

// Takes out the underscores; false if one does not stand between two of what `digit` says.
bool join_digits(std::string& number, const std::function<bool(char)>& digit) {
  for (size_t at = 0; at < number.size(); ++at) {
    if (number[at] != '_') continue;
    const bool between =
        at > 0 && at + 1 < number.size() && digit(number[at - 1]) && digit(number[at + 1]);
    if (!between) return false;
  }
  std::erase(number, '_');
  return true;
}

// Reads a number with blanks around it; false if the text is something else.
bool read_float(std::string_view text, double& out) {
  std::string number = plain_number(text);
  if (!join_digits(number, [](char c) { return c >= '0' && c <= '9'; })) return false;
  const char* const end = number.data() + number.size();
  const auto result = std::from_chars(number.data(), end, out);
  return !number.empty() && result.ec == std::errc() && result.ptr == end;
}

bool read_integer(std::string_view text, int base, int64_t& out) {
  std::string number = plain_number(text);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  const size_t sign = number.starts_with('-') ? 1 : 0;
  if (!prefix.empty() && number.size() >= sign + 2 && number[sign] == '0' &&
      (number[sign + 1] | 0x20) == prefix[1]) {
    number.erase(sign, 2);
    if (number.size() > sign && number[sign] == '_') number.erase(sign, 1);
  }
  const auto digit = [&](char c) {
    const int value = c >= '0' && c <= '9' ? c - '0'
                      : (c | 0x20) >= 'a'  ? (c | 0x20) - 'a' + 10
                                           : 99;
    return value < base;
  };
  if (!join_digits(number, digit)) return false;
  const char* const end = number.data() + number.size();
  const auto result = std::from_chars(number.data(), end, out, base);
  return !number.empty() && result.ec == std::errc() && result.ptr == end;
}

Value to_integer(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader reader("int", arguments);
  const Value* otherwise = reader.next("default");
  const int64_t base = reader.integer("base", 10);
  reader.finish();
  XRUN_JINJA_CHECK(base >= 2 && base <= 36, "int() base must be >= 2 and <= 36");
  XRUN_JINJA_CHECK(!input.is_undefined(), "{}", input.undefined_message());
  int64_t whole = 0;
  double real = 0;
  if (input.is(Kind::kBigInt)) return input;
  if (input.is_integral()) return Value::integer(input.as_int());
  if (input.is_text() && read_integer(input.bytes(), static_cast<int>(base), whole)) {
    return Value::integer(whole);
  }
  const bool number =
      input.is(Kind::kFloat) || (input.is_text() && read_float(input.bytes(), real));
  if (input.is(Kind::kFloat)) real = input.as_double();
  XRUN_JINJA_CHECK(!number || !(std::abs(real) >= 9e18) || std::isinf(real),
                   "an integer leaves the range of 64 bits");
  if (number && std::abs(real) < 9e18) return Value::integer(static_cast<int64_t>(real));
  return otherwise == nullptr ? Value::integer(0) : *otherwise;
}

Value to_float(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader reader("float", arguments);
  const Value* otherwise = reader.next("default");
  reader.finish();
  XRUN_JINJA_CHECK(!input.is_undefined(), "{}", input.undefined_message());
  double real = 0;
  if (input.is_number()) return Value::number(input.as_double());
  if (input.is(Kind::kBigInt) && read_float(input.bytes(), real)) return Value::number(real);
  if (input.is_text() && read_float(input.bytes(), real)) return Value::number(real);
  return otherwise == nullptr ? Value::number(0) : *otherwise;
}

Value absolute(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader("abs", arguments).finish();
  XRUN_JINJA_CHECK(input.is_number(), "bad operand type for abs(): '{}'", type_name(input));
  if (input.is(Kind::kFloat)) return Value::number(std::abs(input.as_double()));
  return apply_sign(input.as_int() < 0, input);
}

Value round(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader reader("round", arguments);
  const int64_t precision = reader.integer("precision", 0);
  const TextPtr method = reader.text("method");
  reader.finish();
  XRUN_JINJA_CHECK(input.is_number(), "type {} doesn't define __round__ method", type_name(input));
  XRUN_JINJA_CHECK(std::abs(precision) <= 300, "round() to {} places", precision);
  const std::string how = method == nullptr ? "common" : method->bytes;
  XRUN_JINJA_CHECK(how == "common" || how == "ceil" || how == "floor",
                   "method must be common, ceil or floor");
  const double value = input.as_double();
  if (how != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    return Value::number((how == "ceil" ? std::ceil(value * scale) : std::floor(value * scale)) /
                         scale);
  }
  if (input.is_integral() && precision >= 0) return Value::integer(input.as_int());
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(value / scale) * scale;
    const bool whole = input.is_integral() && std::abs(rounded) < 9e18;
    return whole ? Value::integer(static_cast<int64_t>(rounded)) : Value::number(rounded);
  }
  // Decimal digits round half to even on the exact value, as Python's round does.
  char digits[800];
  std::snprintf(digits, sizeof(digits), "%.*f", static_cast<int>(precision), value);
  return Value::number(std::strtod(digits, nullptr));
}

}  // namespace

const FilterTable& number_filters() {
  static const FilterTable table = {
      {"int", to_integer},
      {"float", to_float},
      {"abs", absolute},
      {"round", round},
  };
  return table;
}

}  // namespace xrun::jinja
