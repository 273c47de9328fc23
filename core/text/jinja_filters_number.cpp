// Filters that make numbers.

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/text/jinja_arguments.h"
#include "core/text/jinja_filters.h"
#include "core/text/jinja_interpreter.h"
#include "core/text/jinja_operators.h"
#include "core/text/jinja_strings.h"

namespace xrun::jinja {

namespace {

// Leaves out white space at the ends and a plus sign.
std::string_view without_blanks(std::string_view text) {
  const auto blank = [](char c) { return is_space_point(static_cast<unsigned char>(c)); };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  return text;
}

// Reads a number with blanks around it; false if the text is something else.
bool read_float(std::string_view text, double& out) {
  text = without_blanks(text);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return !text.empty() && result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool read_integer(std::string_view text, int base, int64_t& out) {
  text = without_blanks(text);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (!prefix.empty() && text.starts_with(prefix)) text.remove_prefix(2);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return !text.empty() && result.ec == std::errc() && result.ptr == text.data() + text.size();
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
