// Python's comparisons: numbers compare across types and exactly, True is 1, strings compare by
// code point, lists item by item.

#include <algorithm>
#include <cmath>
#include <compare>

#include "core/text/jinja/jinja_operators.h"

namespace xrun::jinja {

namespace {

// Returns the digits of a number's integral part, rounded down. That is enough beside an integer
// beyond 2^53: a double of that size is integral, and a smaller one differs in sign or size.
std::string digits_of(const Value& value) {
  if (value.is(ValueType::kBigInt)) return value.bytes();
  return value.is(ValueType::kFloat) ? fmt::format("{:.0f}", std::floor(value.as_double()))
                                     : std::to_string(value.as_int());
}

// Returns the sign of a - b if one of them is an integer beyond 2^53 and the other is not NaN.
int order_big(const Value& a, const Value& b) {
  // An infinity is beyond every integer.
  for (const Value* side : {&a, &b}) {
    if (!side->is(ValueType::kFloat) || !std::isinf(side->as_double())) continue;
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
    return x.is(ValueType::kFloat) ||
           (x.is_integral() && x.as_int() >= -kExact && x.as_int() <= kExact);
  };
  // Both fit a double exactly, so the comparison of doubles is exact.
  if (is_double(a) && is_double(b)) return a.as_double() <=> b.as_double();
  if (a.is_nan() || b.is_nan()) return std::partial_ordering::unordered;
  // Both are integral or the digits tell them apart: a double with a fraction is below 2^53.
  return order_big(a, b) <=> 0;
}

bool equal_lists(const List& a, const List& b, Budget& budget) {
  // A list equals itself even if it holds a NaN, as in Python.
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
  return std::all_of(a.members.begin(), a.members.end(), [&](const DictItem& member) {
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
    case ValueType::kUndefined:
    case ValueType::kNone: return true;
    case ValueType::kText:
      if (a.bytes().size() != b.bytes().size()) return false;
      budget.charge_bytes(a.bytes().size());
      return a.bytes() == b.bytes();
    case ValueType::kList: return equal_lists(a.list(), b.list(), budget);
    case ValueType::kDict: return equal_dicts(a.dict(), b.dict(), budget);
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
  if (a.is_text() && b.is_text()) {
    budget.charge_bytes(std::min(a.bytes().size(), b.bytes().size()));
    // The bytes of UTF-8 have the order of code points.
    return a.bytes() < b.bytes();
  }
  const bool lists = a.is_list() && b.is_list() && a.list().style == b.list().style &&
                     a.list().style <= ListStyle::kTuple;
  // compare() exchanges the sides of these two; the message has them as the template does.
  const std::string_view op = symbol;
  const bool exchanged = op == ">" || op == "<=";
  XRUN_JINJA_CHECK(lists, "'{}' not supported between instances of '{}' and '{}'", op,
                   type_name(exchanged ? b : a), type_name(exchanged ? a : b));
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

}  // namespace xrun::jinja
