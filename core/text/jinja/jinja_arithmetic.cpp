// Arithmetic as in Python: integers stay integers, / is always a float, // and % round towards
// minus infinity; + joins and * repeats strings and lists.

#include <algorithm>
#include <cmath>

#include "core/text/jinja/jinja_operators.h"

namespace xrun::jinja {

namespace {

// The messages are CPython's.
[[noreturn]] void unsupported(std::string_view op, const Value& a, const Value& b) {
  if (op == "+" && a.is_text()) {
    throw Fault(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
  }
  if (op == "+" && a.is_list() && a.list().style == ListStyle::kList) {
    throw Fault(fmt::format("can only concatenate list (not \"{}\") to list", type_name(b)));
  }
  throw Fault(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(a),
                          type_name(b)));
}

// Takes the value by reference because evaluating the first argument writes it.
int64_t checked(bool overflow, const int64_t& value) {
  XRUN_JINJA_CHECK(!overflow, "an integer overflows 64 bits");
  return value;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  bool overflow = false;
  bool base_overflow = false;
  while (exponent > 0 && !overflow) {
    // By squaring. A square that overflows matters only if a higher bit multiplies by it.
    if (exponent & 1) overflow = base_overflow || __builtin_mul_overflow(result, base, &result);
    exponent >>= 1;
    if (exponent > 0) base_overflow |= __builtin_mul_overflow(base, base, &base);
  }
  return checked(overflow, result);
}

// Quotient and remainder rounded towards minus infinity.
int64_t floor_divide(int64_t a, int64_t b) {
  XRUN_JINJA_CHECK(b != 0, "division by zero");
  // INT64_MIN / -1 overflows, which C++ leaves undefined; the processor would trap.
  if (b == -1) {
    int64_t out = 0;
    return checked(__builtin_sub_overflow(int64_t{0}, a, &out), out);
  }
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t floor_remainder(int64_t a, int64_t b) {
  XRUN_JINJA_CHECK(b != 0, "integer modulo by zero");
  // INT64_MIN % -1 traps too.
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double power(double base, double exponent) {
  // Python raises ZeroDivisionError, where pow() would give infinity.
  XRUN_JINJA_CHECK(!(base == 0 && exponent < 0), "0.0 cannot be raised to a negative power");
  const double out = std::pow(base, exponent);
  // Python raises OverflowError, and gives a complex number for a root of a negative one.
  XRUN_JINJA_CHECK(std::isfinite(out) || !std::isfinite(base) || !std::isfinite(exponent),
                   "{} ** {} is not a finite real number", base, exponent);
  return out;
}

Value integer_binary(std::string_view op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == "+") return Value::integer(checked(__builtin_add_overflow(a, b, &out), out));
  if (op == "-") return Value::integer(checked(__builtin_sub_overflow(a, b, &out), out));
  if (op == "*") return Value::integer(checked(__builtin_mul_overflow(a, b, &out), out));
  if (op == "//") return Value::integer(floor_divide(a, b));
  if (op == "%") return Value::integer(floor_remainder(a, b));
  if (op == "**" && b >= 0) return Value::integer(integer_power(a, b));
  if (op == "**") return Value::number(power(static_cast<double>(a), static_cast<double>(b)));
  XRUN_JINJA_CHECK(b != 0, "division by zero");
  return Value::number(static_cast<double>(a) / static_cast<double>(b));
}

Value float_binary(std::string_view op, double a, double b) {
  if (op == "+") return Value::number(a + b);
  if (op == "-") return Value::number(a - b);
  if (op == "*") return Value::number(a * b);
  if (op == "**") return Value::number(power(a, b));
  XRUN_JINJA_CHECK(b != 0, "float division by zero");
  if (op == "/") return Value::number(a / b);
  // As CPython: fmod has the sign of the dividend, % that of the divisor, a zero included.
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;  // whole up to rounding
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (op == "%") return Value::number(rest);
  if (quotient == 0) return Value::number(std::copysign(0.0, a / b));
  const double whole = std::floor(quotient);
  return Value::number(quotient - whole > 0.5 ? whole + 1 : whole);
}

Value repeat(const Value& value, int64_t times, Budget& budget) {
  // A negative count gives nothing, as in Python.
  times = std::max<int64_t>(times, 0);
  if (value.is_text()) {
    // Repeating "" a billion times must not loop a billion times.
    if (value.bytes().empty()) times = 0;
    charge_copies(budget, times, value.text());
    TextBuilder out;
    for (int64_t i = 0; i < times; ++i) out.append(value.text());
    return Value::text(out.take(), value.markup());
  }
  const List& list = value.list();
  const size_t size = list.items.size();
  // Checked before the product, which could overflow.
  XRUN_JINJA_CHECK(size == 0 || static_cast<size_t>(times) <= kMaxListItems / size,
                   "a list grows beyond {} items", kMaxListItems);
  std::vector<Value> items;
  for (int64_t i = 0; i < times && size > 0; ++i) {
    budget.charge(static_cast<int64_t>(size));
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return Value::list(std::move(items), list.style, list.origin);
}

Value add_texts(const Value& a, const Value& b, Budget& budget) {
  TextBuilder out;
  const bool markup = a.markup() || b.markup();
  for (const Value* side : {&a, &b}) {
    budget.charge_bytes(side->bytes().size());
    // Markup escapes the plain text it is joined with.
    if (markup && !side->markup()) {
      append_escaped(out, side->text());
    } else {
      out.append(side->text());
    }
  }
  return Value::text(out.take(), markup);
}

bool is_sequence(const Value& value) {
  return value.is_list() && value.list().style <= ListStyle::kTuple;
}

Value add_lists(const List& a, const List& b, Budget& budget) {
  budget.charge(static_cast<int64_t>(a.items.size() + b.items.size()));
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  // If either list is a message's, so is the result.
  const bool message = a.origin == Origin::kMessage || b.origin == Origin::kMessage;
  return Value::list(std::move(items), a.style, message ? Origin::kMessage : Origin::kTemplate);
}

}  // namespace

Value apply_binary(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  XRUN_JINJA_CHECK(op != "%" || !a.is_text(),
                   "printf formatting (str % values) is not supported in chat templates");
  for (const Value* side : {&a, &b}) {
    XRUN_JINJA_CHECK(!side->is_undefined(), "{}", side->undefined_message());
  }
  // bool is an int here, as in Python.
  if (a.is_integral() && b.is_integral()) return integer_binary(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return float_binary(op, a.as_double(), b.as_double());
  if (op == "+" && a.is_text() && b.is_text()) return add_texts(a, b, budget);
  // Lists join only lists, and tuples only tuples.
  if (op == "+" && is_sequence(a) && is_sequence(b) && a.list().style == b.list().style) {
    return add_lists(a.list(), b.list(), budget);
  }
  if (op == "*" && (a.is_text() || is_sequence(a)) && b.is_integral()) {
    return repeat(a, b.as_int(), budget);
  }
  if (op == "*" && (b.is_text() || is_sequence(b)) && a.is_integral()) {
    return repeat(b, a.as_int(), budget);
  }
  unsupported(op, a, b);
}

Value apply_sign(bool negative, const Value& a) {
  XRUN_JINJA_CHECK(!a.is_undefined(), "{}", a.undefined_message());
  XRUN_JINJA_CHECK(a.is_number(), "bad operand type for unary {}: '{}'", negative ? "-" : "+",
                   type_name(a));
  if (a.is(ValueType::kFloat)) return Value::number(negative ? -a.as_double() : a.as_double());
  if (!negative) return Value::integer(a.as_int());
  return integer_binary("-", 0, a.as_int());
}

}  // namespace xrun::jinja
