// Operators as in Python: integers stay integers, / is always a float, // and % round towards minus
// infinity, numbers compare across types, True is 1, strings compare by code point.

#include "core/text/jinja/jinja_operators.h"

#include <algorithm>
#include <cmath>
#include <compare>

#include "core/base/utf8.h"

namespace xrun::jinja {

namespace {

// Returns the digits of a number's integral part, rounded down. That is enough beside an integer
// beyond 2^53: a double of that size is integral, and a smaller one differs in sign or size.
std::string digits_of(const Value& value) {
  if (value.is(Kind::kBigInt)) return value.bytes();
  return value.is(Kind::kFloat) ? fmt::format("{:.0f}", std::floor(value.as_double()))
                                : std::to_string(value.as_int());
}

// Returns the sign of a - b if one of them is an integer beyond 2^53 and the other is not NaN.
int order_big(const Value& a, const Value& b) {
  // An infinity is beyond every integer.
  for (const Value* side : {&a, &b}) {
    if (!side->is(Kind::kFloat) || !std::isinf(side->as_double())) continue;
    return (side == &a) == (side->as_double() > 0) ? 1 : -1;
  }
  const std::string x = digits_of(a), y = digits_of(b);
  const bool negative = x[0] == '-';
  if (negative != (y[0] == '-')) return negative ? -1 : 1;
  // Numbers of one sign without leading zeros: the longer one is larger, equal lengths compare as
  // text.
  const int size = x.size() != y.size() ? (x.size() < y.size() ? -1 : 1) : x.compare(y);
  // A larger magnitude is the smaller negative number.
  return negative ? -size : size;
}

// Exact, as in Python: an int is not rounded to meet a float. Unordered where one is NaN.
std::partial_ordering order_numbers(const Value& a, const Value& b) {
  constexpr int64_t kExact = int64_t{1} << 53;  // integers up to it are doubles
  const auto is_double = [&](const Value& x) {
    return x.is(Kind::kFloat) || (x.is_integral() && x.as_int() >= -kExact && x.as_int() <= kExact);
  };
  // Both fit a double exactly, so the comparison of doubles is exact.
  if (is_double(a) && is_double(b)) return a.as_double() <=> b.as_double();
  if (a.is_nan() || b.is_nan()) return std::partial_ordering::unordered;
  // Both are integral or the digits tell them apart: a double with a fraction is below 2^53.
  return order_big(a, b) <=> 0;
}

bool equal_lists(const List& a, const List& b, Budget& budget) {
  if (&a == &b) return true;
  // A list is never a tuple, and two generators are never equal.
  if (a.style != b.style || a.style == ListStyle::kGenerator || a.items.size() != b.items.size()) {
    return false;
  }
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                    [&](const Value& x, const Value& y) { return equal(x, y, budget); });
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (&a == &b) return true;
  if (a.members.size() != b.members.size()) return false;
  // The order of the members does not count.
  return std::all_of(a.members.begin(), a.members.end(), [&](const Member& member) {
    const Value* other = b.find(member.first, budget);
    return other != nullptr && equal(member.second, *other, budget);
  });
}

}  // namespace

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.charge(1);
  // The common case, without a conversion to double.
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  if (a.is_numeric() && b.is_numeric())
    return order_numbers(a, b) == std::partial_ordering::equivalent;
  // Values of two kinds are unequal, never an error; a Markup equals a plain str.
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kText:
      if (a.bytes().size() != b.bytes().size()) return false;
      budget.charge_bytes(a.bytes().size());
      return a.bytes() == b.bytes();
    case Kind::kList: return equal_lists(a.list(), b.list(), budget);
    case Kind::kDict: return equal_dicts(a.dict(), b.dict(), budget);
    default: return a.identity() == b.identity();
  }
}

bool less(const Value& a, const Value& b, Budget& budget, const char* symbol) {
  budget.charge(1);
  for (const Value* side : {&a, &b}) {
    XRUN_JINJA_CHECK(!side->is_undefined(), "{}", side->undefined_message());
  }
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
  if (a.is_numeric() && b.is_numeric()) return order_numbers(a, b) == std::partial_ordering::less;
  // The bytes of UTF-8 have the order of code points.
  if (a.is_text() && b.is_text()) return a.bytes() < b.bytes();
  const bool lists = a.is_list() && b.is_list() && a.list().style == b.list().style &&
                     a.list().style <= ListStyle::kTuple;
  XRUN_JINJA_CHECK(lists, "'{}' not supported between instances of '{}' and '{}'", symbol,
                   type_name(a), type_name(b));
  const std::vector<Value>& x = a.list().items;
  const std::vector<Value>& y = b.list().items;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    // The first pair that differs decides.
    if (!equal(x[i], y[i], budget)) return less(x[i], y[i], budget, symbol);
  }
  return x.size() < y.size();
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_text()) {
    XRUN_JINJA_CHECK(!item.is_undefined(), "{}", item.undefined_message());
    XRUN_JINJA_CHECK(item.is_text(), "'in <string>' requires string as left operand, not {}",
                     type_name(item));
    budget.charge_bytes(container.bytes().size());
    return find_bytes(container.bytes(), item.bytes()) != std::string::npos;
  }
  if (container.is_dict()) {
    XRUN_JINJA_CHECK(is_hashable(item), "unhashable type: '{}'", type_name(item));
    return container.dict().find(item, budget) != nullptr;
  }
  const std::vector<Value> items = iterate(container, budget);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& value) { return equal(value, item, budget); });
}

// A copy of the items: the loop may change the value that it runs over.
std::vector<Value> iterate(const Value& value, Budget& budget) {
  std::vector<Value> out;
  if (value.is_list()) {
    List& list = value.list();
    budget.charge(static_cast<int64_t>(list.items.size() / 4));
    if (list.style != ListStyle::kGenerator) return list.items;
    // The rest of it; afterwards it is empty.
    out.assign(list.items.begin() + static_cast<ptrdiff_t>(list.taken), list.items.end());
    list.taken = list.items.size();
  } else if (value.is_dict()) {
    budget.charge(static_cast<int64_t>(value.dict().members.size() / 4));
    for (const Member& member : value.dict().members) out.push_back(member.first);
  } else if (value.is_text()) {
    const Text& text = value.text();
    budget.charge(static_cast<int64_t>(text.bytes.size()));
    XRUN_JINJA_CHECK(text_length(text) <= static_cast<int64_t>(kMaxListItems),
                     "a list grows beyond {} items", kMaxListItems);
    for (size_t at = 0; at < text.bytes.size();) {
      size_t end = at + 1;
      while (end < text.bytes.size() && is_continuation(text.bytes[end])) ++end;
      TextBuilder point;
      point.append(text, at, end);
      out.push_back(Value::text(point.take()));
      at = end;
    }
  } else if (value.is(Kind::kLoop)) {
    Loop& loop = value.loop();
    // The items that are still to come.
    if (loop.index + 1 < loop.items.size()) {
      out.assign(loop.items.begin() + static_cast<ptrdiff_t>(loop.index) + 1, loop.items.end());
    }
  } else {
    XRUN_JINJA_CHECK(value.is_undefined(), "'{}' object is not iterable", type_name(value));
  }
  return out;
}

namespace {

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
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value integer_binary(std::string_view op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == "+") return Value::integer(checked(__builtin_add_overflow(a, b, &out), out));
  if (op == "-") return Value::integer(checked(__builtin_sub_overflow(a, b, &out), out));
  if (op == "*") return Value::integer(checked(__builtin_mul_overflow(a, b, &out), out));
  if (op == "//") return Value::integer(floor_divide(a, b));
  if (op == "%") return Value::integer(floor_remainder(a, b));
  if (op == "**" && b >= 0) return Value::integer(integer_power(a, b));
  if (op == "**") {
    XRUN_JINJA_CHECK(a != 0, "0.0 cannot be raised to a negative power");
    return Value::number(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  XRUN_JINJA_CHECK(b != 0, "division by zero");
  return Value::number(static_cast<double>(a) / static_cast<double>(b));
}

Value float_binary(std::string_view op, double a, double b) {
  if (op == "+") return Value::number(a + b);
  if (op == "-") return Value::number(a - b);
  if (op == "*") return Value::number(a * b);
  if (op == "**") return Value::number(std::pow(a, b));
  XRUN_JINJA_CHECK(b != 0, "float division by zero");
  if (op == "/") return Value::number(a / b);
  // fmod has the sign of the dividend, Python's % that of the divisor.
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  // (a - rest) / b is whole up to rounding: the half makes floor hit it.
  return Value::number(op == "%" ? rest : std::floor((a - rest) / b + 0.5));
}

Value repeat(const Value& value, int64_t times, Budget& budget) {
  times = std::max<int64_t>(times, 0);
  if (value.is_text()) {
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
  // One part of a message makes the whole list a message's.
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
  if (a.is_integral() && b.is_integral()) return integer_binary(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return float_binary(op, a.as_double(), b.as_double());
  if (op == "+" && a.is_text() && b.is_text()) return add_texts(a, b, budget);
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
  if (a.is(Kind::kFloat)) return Value::number(negative ? -a.as_double() : a.as_double());
  if (!negative) return Value::integer(a.as_int());
  return integer_binary("-", 0, a.as_int());
}

bool compare(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (op == "==") return equal(a, b, budget);
  if (op == "!=") return !equal(a, b, budget);
  if (op == "in") return contains(b, a, budget);
  if (op == "not in") return !contains(b, a, budget);
  if (op == "<") return less(a, b, budget, "<");
  if (op == ">") return less(b, a, budget, ">");
  if ((a.is_nan() && b.is_numeric()) || (b.is_nan() && a.is_numeric())) return false;
  // a <= b is "not b < a" for all but NaN, which compares false with every number.
  return op == "<=" ? !less(b, a, budget, "<=") : !less(a, b, budget, ">=");
}

namespace {

// A slice resolved against a length.
struct Stride {
  int64_t first;
  int64_t step;
  int64_t count;
};

// The resolved bound, clamped to [low, high]; `otherwise` if it is None.
int64_t bound(const Value& value, int64_t length, int64_t low, int64_t high, int64_t otherwise) {
  if (value.is_none()) return otherwise;
  XRUN_JINJA_CHECK(value.is_integral(), "slice indices must be integers or None");
  // Python's slice.indices: negative ones count from the end, all are clamped.
  int64_t index = value.as_int();
  if (index < 0) index = index < -length ? low : index + length;
  return std::clamp(index, low, high);
}

Stride resolve(const Value& start, const Value& stop, const Value& step, int64_t length) {
  XRUN_JINJA_CHECK(step.is_none() || step.is_integral(), "slice indices must be integers or None");
  // A step longer than any list takes one item; clamping it avoids overflow.
  const int64_t by =
      step.is_none() ? 1 : std::clamp(step.as_int(), -(int64_t{1} << 40), int64_t{1} << 40);
  XRUN_JINJA_CHECK(by != 0, "slice step cannot be zero");
  if (by > 0) {
    // The count is ceil((end - first) / by).
    const int64_t first = bound(start, length, 0, length, 0);
    const int64_t end = bound(stop, length, 0, length, length);
    return {first, by, end > first ? (end - first - 1) / by + 1 : 0};
  }
  // -1 is the position before the first item.
  const int64_t first = bound(start, length, -1, length - 1, length - 1);
  const int64_t end = bound(stop, length, -1, length - 1, -1);
  return {first, by, first > end ? (first - end - 1) / -by + 1 : 0};
}

Value slice_text_points(const Value& value, const Stride& stride, int64_t length, Budget& budget) {
  const Text& text = value.text();
  // One contiguous cut needs no table of code points.
  if (stride.step == 1 || stride.count == 0) {
    const size_t begin = byte_of_point(text, std::min(stride.first, length));
    const size_t end = byte_of_point(text, stride.first + stride.count);
    return Value::text(slice_text(value.as_text(), begin, stride.count == 0 ? begin : end),
                       value.markup());
  }
  budget.charge(stride.count);
  std::vector<uint32_t> starts;  // byte of each code point, and the end
  starts.reserve(static_cast<size_t>(length) + 1);
  for (size_t at = 0; at < text.bytes.size(); at += read_utf8(text.bytes, at).size) {
    starts.push_back(
        static_cast<uint32_t>(at));  // as text_length() counts them: an invalid byte is one too
  }
  starts.push_back(static_cast<uint32_t>(text.bytes.size()));
  TextBuilder out;
  for (int64_t i = 0; i < stride.count; ++i) {
    const size_t point = static_cast<size_t>(stride.first + i * stride.step);
    out.append(text, starts[point], starts[point + 1]);
  }
  return Value::text(out.take(), value.markup());
}

}  // namespace

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget) {
  XRUN_JINJA_CHECK(!value.is_undefined(), "{}", value.undefined_message());
  const bool sliceable =
      value.is_text() || (value.is_list() && value.list().style <= ListStyle::kRange);
  XRUN_JINJA_CHECK(sliceable, "'{}' object is not subscriptable", type_name(value));
  const int64_t length = length_of(value);
  const Stride stride = resolve(start, stop, step, length);
  // Charged by the length of the object: code points must be counted.
  budget.charge(length / 16);
  if (value.is_text()) return slice_text_points(value, stride, length, budget);
  const List& list = value.list();
  std::vector<Value> items;
  for (int64_t i = 0; i < stride.count; ++i) {
    items.push_back(list.items[static_cast<size_t>(stride.first + i * stride.step)]);
  }
  return Value::list(std::move(items), list.style, list.origin);
}

}  // namespace xrun::jinja
