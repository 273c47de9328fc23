// Equality, order, membership and iteration, as Python has them: numbers compare across types, True
// is 1, texts compare by code point.

#include <algorithm>
#include <cmath>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

namespace {

// A number's whole part in digits. Beyond 64 bits every double is whole, and within them it is the
// sign of the other number that tells.
std::string digits_of(const Value& value) {
  if (value.is(Kind::kBigInt)) return value.bytes();
  return value.is(Kind::kFloat) ? fmt::format("{:.0f}", std::floor(value.as_double()))
                                : std::to_string(value.as_int());
}

// Returns a - b's sign where one of them is an integer beyond 64 bits and the other no NaN.
int order_big(const Value& a, const Value& b) {
  for (const Value* side : {&a, &b}) {
    if (!side->is(Kind::kFloat) || !std::isinf(side->as_double())) continue;
    return (side == &a) == (side->as_double() > 0) ? 1 : -1;
  }
  const std::string x = digits_of(a), y = digits_of(b);
  const bool negative = x[0] == '-';
  if (negative != (y[0] == '-')) return negative ? -1 : 1;
  const int size = x.size() != y.size() ? (x.size() < y.size() ? -1 : 1) : x.compare(y);
  return negative ? -size : size;
}

bool equal_lists(const List& a, const List& b, Budget& budget) {
  if (&a == &b) return true;
  if (a.style != b.style || a.style == ListStyle::kGenerator || a.items.size() != b.items.size()) {
    return false;
  }
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                    [&](const Value& x, const Value& y) { return equal(x, y, budget); });
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (&a == &b) return true;
  if (a.members.size() != b.members.size()) return false;
  return std::all_of(a.members.begin(), a.members.end(), [&](const Member& member) {
    const Value* other = b.find(member.first, budget);
    return other != nullptr && equal(member.second, *other, budget);
  });
}

}  // namespace

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.charge(1);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    return a.as_double() == b.as_double();
  }
  if (a.is_numeric() && b.is_numeric()) return !a.is_nan() && !b.is_nan() && order_big(a, b) == 0;
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
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
    return a.as_double() < b.as_double();
  }
  if (a.is_numeric() && b.is_numeric()) return !a.is_nan() && !b.is_nan() && order_big(a, b) < 0;
  if (a.is_text() && b.is_text()) return a.bytes() < b.bytes();
  const bool lists = a.is_list() && b.is_list() && a.list().style == b.list().style &&
                     a.list().style <= ListStyle::kTuple;
  XRUN_JINJA_CHECK(lists, "'{}' not supported between instances of '{}' and '{}'", symbol,
                   type_name(a), type_name(b));
  const std::vector<Value>& x = a.list().items;
  const std::vector<Value>& y = b.list().items;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
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

std::vector<Value> iterate(const Value& value, Budget& budget) {
  std::vector<Value> out;
  if (value.is_list()) {
    List& list = value.list();
    budget.charge(static_cast<int64_t>(list.items.size() / 4));
    if (list.style != ListStyle::kGenerator) return list.items;
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
    if (loop.index + 1 < loop.items.size()) {
      out.assign(loop.items.begin() + static_cast<ptrdiff_t>(loop.index) + 1, loop.items.end());
    }
  } else {
    XRUN_JINJA_CHECK(value.is_undefined(), "'{}' object is not iterable", type_name(value));
  }
  return out;
}

}  // namespace xrun::jinja
