// Filters that give a str or a number.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_builtins.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"
#include "core/text/jinja/jinja_strings.h"

namespace xrun::jinja {

namespace {

// Returns str(value); a string keeps its markup.
Value soft_text(Interpreter& interpreter, const Value& input) {
  if (input.is_text()) return input;
  return Value::text(to_text(input, interpreter.budget()));
}

Value trim(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("trim", arguments);
  const TextPtr chars = reader.text("chars");
  reader.finish();
  const Value text = soft_text(interpreter, input);
  if (chars != nullptr) {
    // Each character of the text is searched in `chars`.
    interpreter.budget().charge_bytes(text.bytes().size() * chars->bytes.size());
  }
  return Value::text(strip_text(text.as_text(), StripSide::kBoth, chars.get()), text.markup());
}

template <TextPtr change(const Text&)>
Value changed(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("filter", arguments).finish();
  const Value text = soft_text(interpreter, input);
  return Value::text(change(text.text()), text.markup());
}

Value string(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("string", arguments).finish();
  return soft_text(interpreter, input);
}

Value safe(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("safe", arguments).finish();
  // Becomes Markup as it is, unescaped.
  return Value::text(to_text(input, interpreter.budget()), true);
}

Value replace(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("replace", arguments);
  Budget& budget = interpreter.budget();
  const TextPtr from = to_text(reader.required("old"), budget);
  const TextPtr to = to_text(reader.required("new"), budget);
  const Value* count = reader.next("count");
  reader.finish();
  // -1 replaces all.
  const int64_t most = count != nullptr && count->is_integral() ? count->as_int() : -1;
  return Value::text(replace_text(*to_text(input, budget), *from, *to, most, budget));
}

// indent(width=4 or a string, first=false, blank=false).
Value indent(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("indent", arguments);
  const Value* width = reader.next("width");
  const bool first = reader.boolean("first", false);
  const bool blank = reader.boolean("blank", false);
  reader.finish();
  XRUN_JINJA_CHECK(input.is_text(), "indent() takes a str, got {}", type_name(input));
  XRUN_JINJA_CHECK(width == nullptr || width->is_text() || width->is_integral(),
                   "indent() takes a number or a str as its width");
  const int64_t spaces = width != nullptr && width->is_integral() ? width->as_int() : 4;
  XRUN_JINJA_CHECK(spaces <= 10'000, "indent() takes at most 10,000 spaces");
  const TextPtr margin =
      width != nullptr && width->is_text()
          ? width->as_text()
          : make_text(std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' '));
  const TextPtr text = input.as_text();
  // With a newline appended, the last line counts even if it is empty.
  Budget& budget = interpreter.budget();
  const auto lines = split_lines(join_texts(*text, *make_text("\n")), budget);
  charge_copies(budget, static_cast<int64_t>(lines.size()), *margin, text->bytes.size());
  TextBuilder out;
  for (size_t i = 0; i < lines.size(); ++i) {
    // The line feed has the mark of the text it indents, not of the template.
    if (i > 0) out.append("\n", mark_at(*text, 0));
    const bool indented = i == 0 ? first : blank || !lines[i]->bytes.empty();
    if (indented) out.append(*margin);
    out.append(*lines[i]);
  }
  return Value::text(out.take(), input.markup());
}

Value tojson(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  // transformers' tojson, json.dumps with ensure_ascii=False, not Jinja's: no HTML escapes.
  ArgumentReader reader("tojson", arguments);
  JsonPrint style;
  style.ascii = reader.boolean("ensure_ascii", false);
  const Value* indent = reader.next("indent");
  const Value* separators = reader.next("separators");
  style.sort_keys = reader.boolean("sort_keys", false);
  reader.finish();
  if (indent != nullptr && !indent->is_none()) {
    XRUN_JINJA_CHECK(indent->is_integral() || indent->is_text(),
                     "tojson(): indent must be an integer or a str, not {}", type_name(*indent));
    const int64_t width =
        indent->is_integral() ? std::clamp<int64_t>(indent->as_int(), 0, 1000) : 0;
    style.indent =
        indent->is_text() ? indent->bytes() : std::string(static_cast<size_t>(width), ' ');
    // json.dumps drops the blank after the comma where it breaks lines.
    style.item_separator = std::string(",");
  }
  if (separators != nullptr && !separators->is_none()) {
    const std::vector<Value> parts = iterate(*separators, interpreter.budget());
    XRUN_JINJA_CHECK(parts.size() == 2 && parts[0].is_text() && parts[1].is_text(),
                     "tojson(): separators must be two strs");
    style.item_separator = parts[0].bytes();
    style.key_separator = parts[1].bytes();
  }
  TextBuilder out;
  print_json(out, input, style, interpreter.budget());
  interpreter.budget().charge_bytes(out.size());
  return Value::text(out.take());
}

// Returns a number in C's spelling: surrounding white space and a plus sign removed, digits of any
// script as ASCII. "" if the text is not a number.
std::string plain_number(std::string_view text) {
  std::string out;
  bool blank = false;  // after the number
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = read_utf8(text, at);
    at += point.size;
    if (is_space_point(point.value)) {
      blank = !out.empty();
      continue;
    }
    // -1: an ASCII character or no digit.
    const int digit = point.value < 0x80 ? -1 : decimal_value(point.value);
    if (blank || (point.value >= 0x80 && digit < 0)) return "";
    out += static_cast<char>(digit < 0 ? point.value : static_cast<uint32_t>('0' + digit));
  }
  if (out.starts_with('+')) {
    // "+-1" is not a number, although "+1" is.
    out.erase(0, 1);
    if (out.starts_with('-')) return "";
  }
  return out;
}

// Removes underscores; false if one is not between two digits.
bool join_digits(std::string& number) {
  const auto digit = [&](size_t at) {
    return at < number.size() && number[at] >= '0' && number[at] <= '9';
  };
  for (size_t at = 0; at < number.size(); ++at) {
    // Python allows 1_000, not _1, 1_ or 1__0.
    if (number[at] == '_' && (at == 0 || !digit(at - 1) || !digit(at + 1))) return false;
  }
  std::erase(number, '_');
  return true;
}

// Reads a whole text as Python's int() and float() do.
template <class Number>
bool read_number(std::string_view text, Number& out) {
  std::string number = plain_number(text);
  if (!join_digits(number)) return false;
  const char* const end = number.data() + number.size();
  // Unlike strtod, from_chars ignores the locale.
  const auto result = std::from_chars(number.data(), end, out);
  if constexpr (std::is_floating_point_v<Number>) {
    // float('nan(1)') is an error in Python.
    if (number.find('(') != std::string::npos) return false;
    // Out of range: an infinity or 0, as in Python.
    if (result.ec == std::errc::result_out_of_range && result.ptr == end) {
      out = std::strtod(number.c_str(), nullptr);
      return true;
    }
  }
  return !number.empty() && result.ec == std::errc() && result.ptr == end;
}

Value to_integer(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader reader("int", arguments);
  const Value* default_value = reader.next("default");
  reader.finish();
  XRUN_JINJA_CHECK(!input.is_undefined(), "{}", input.undefined_message());
  int64_t whole = 0;
  double real = 0;
  // As Jinja does it: int(text), else int(float(text)), else the default.
  if (input.is(ValueType::kBigInt)) return input;
  if (input.is_integral()) return Value::integer(input.as_int());
  if (input.is_text() && read_number(input.bytes(), whole)) return Value::integer(whole);
  const bool number =
      input.is(ValueType::kFloat) || (input.is_text() && read_number(input.bytes(), real));
  if (input.is(ValueType::kFloat)) real = input.as_double();
  // 9e18 is below 2^63, with room for the rounding of the conversion.
  XRUN_JINJA_CHECK(!number || !(std::abs(real) >= 9e18) || std::isinf(real),
                   "an integer overflows 64 bits");
  // A NaN fails this comparison too and gives the default: Python's int(nan) raises.
  if (number && std::abs(real) < 9e18) return Value::integer(static_cast<int64_t>(real));
  return default_value == nullptr ? Value::integer(0) : *default_value;
}

Value to_float(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader reader("float", arguments);
  const Value* default_value = reader.next("default");
  reader.finish();
  XRUN_JINJA_CHECK(!input.is_undefined(), "{}", input.undefined_message());
  double real = 0;
  if (input.is_number()) return Value::number(input.as_double());
  if (input.is(ValueType::kBigInt) && read_number(input.bytes(), real)) return Value::number(real);
  if (input.is_text() && read_number(input.bytes(), real)) return Value::number(real);
  return default_value == nullptr ? Value::number(0) : *default_value;
}

Value round(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader reader("round", arguments);
  const int64_t precision = reader.integer("precision", 0);
  const TextPtr method = reader.text("method");
  reader.finish();
  XRUN_JINJA_CHECK(input.is_number(), "type {} doesn't define __round__ method", type_name(input));
  // Without std::abs, which is undefined for the least integer.
  XRUN_JINJA_CHECK(precision >= -300 && precision <= 300, "round() to {} places", precision);
  const std::string how = method == nullptr ? "common" : method->bytes;
  XRUN_JINJA_CHECK(how == "common" || how == "ceil" || how == "floor",
                   "method must be common, ceil or floor");
  const double value = input.as_double();
  // Jinja's own arithmetic, rounding errors included.
  if (how != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    return Value::number((how == "ceil" ? std::ceil(value * scale) : std::floor(value * scale)) /
                         scale);
  }
  if (input.is_integral() && precision >= 0) return Value::integer(input.as_int());
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    // Half to even, as Python rounds.
    const double rounded = std::nearbyint(value / scale) * scale;
    const bool whole = input.is_integral() && std::abs(rounded) < 9e18;
    return whole ? Value::integer(static_cast<int64_t>(rounded)) : Value::number(rounded);
  }
  // printf rounds the exact value half to even, as Python's round does.
  // The longest: 309 digits, the point, 300 digits.
  char digits[800];
  std::snprintf(digits, sizeof(digits), "%.*f", static_cast<int>(precision), value);
  return Value::number(std::strtod(digits, nullptr));
}

}  // namespace

const FilterTable& scalar_filters() {
  static const FilterTable table = {
      {"capitalize", changed<capitalize_text>},
      {"float", to_float},
      {"indent", indent},
      {"int", to_integer},
      {"lower", changed<lower_text>},
      {"replace", replace},
      {"round", round},
      {"safe", safe},
      {"string", string},
      {"title", changed<title_words>},
      {"tojson", tojson},
      {"trim", trim},
      {"upper", changed<upper_text>},
  };
  return table;
}

}  // namespace xrun::jinja
