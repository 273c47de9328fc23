// Equality and order are Python's: numbers compare across types, True is 1, texts by code point.

#include "core/text/jinja_value.h"

#include <algorithm>

namespace xrun::jinja {

namespace {

struct UndefinedReason : Object {
  std::string message;
};

std::shared_ptr<const Text> point_text(const Text& text, size_t begin, size_t end) {
  TextBuilder builder;
  builder.append(text, begin, end);
  return builder.take();
}

}  // namespace

bool is_hashable(const Value& value) {
  if (value.is_dict()) return false;
  if (!value.is_list()) return true;
  const List& list = value.list();
  if (list.style != ListStyle::kTuple) return list.style != ListStyle::kList;
  return std::all_of(list.items.begin(), list.items.end(), is_hashable);
}

int depth_of(const Value& value) {
  if (value.is_list()) return value.list().depth;
  if (value.is_dict()) return value.dict().depth;
  if (value.is(Kind::kLoop)) return value.loop().nesting;
  if (value.is(Kind::kFunction)) return value.function().depth;
  return 0;
}

void require_depth(int depth) {
  XRUN_JINJA_CHECK(depth <= kMaxValueDepth, "values nest deeper than {}", kMaxValueDepth);
}

Value Value::undefined(std::string message) {
  auto reason = std::make_shared<UndefinedReason>();
  reason->message = std::move(message);
  return Value(Kind::kUndefined, std::move(reason));
}

Value Value::boolean(bool value) {
  Value out(Kind::kBool);
  out.integer_ = value ? 1 : 0;
  return out;
}

Value Value::integer(int64_t value) {
  Value out(Kind::kInt);
  out.integer_ = value;
  return out;
}

Value Value::number(double value) {
  Value out(Kind::kFloat);
  out.number_ = value;
  return out;
}

Value Value::text(TextPtr text, bool markup) {
  Value out(Kind::kText, std::move(text));
  out.markup_ = markup;
  return out;
}

Value Value::list(std::shared_ptr<List> list) {
  XRUN_JINJA_CHECK(list->items.size() <= kMaxListItems, "a list grows beyond {} items",
                   kMaxListItems);
  list->depth = 1;
  for (const Value& item : list->items) list->depth = std::max(list->depth, depth_of(item) + 1);
  require_depth(list->depth);
  return Value(Kind::kList, std::move(list));
}

Value Value::list(std::vector<Value> items, ListStyle style, Origin origin) {
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  list->style = style;
  list->origin = origin;
  return Value::list(std::move(list));
}

Value Value::dict(std::shared_ptr<Dict> dict) { return Value(Kind::kDict, std::move(dict)); }
Value Value::space(std::shared_ptr<Namespace> s) { return Value(Kind::kNamespace, std::move(s)); }
Value Value::loop(std::shared_ptr<Loop> loop) { return Value(Kind::kLoop, std::move(loop)); }
Value Value::function(std::shared_ptr<Function> function) {
  return Value(Kind::kFunction, std::move(function));
}

// The pointee was created mutable; shared ownership is const only to fit texts.
List& Value::list() const { return const_cast<List&>(static_cast<const List&>(*object_)); }
Dict& Value::dict() const { return const_cast<Dict&>(static_cast<const Dict&>(*object_)); }
Namespace& Value::space() const {
  return const_cast<Namespace&>(static_cast<const Namespace&>(*object_));
}
Loop& Value::loop() const { return const_cast<Loop&>(static_cast<const Loop&>(*object_)); }
Function& Value::function() const {
  return const_cast<Function&>(static_cast<const Function&>(*object_));
}

std::string Value::undefined_message() const {
  if (object_ == nullptr) return "the value is undefined";
  return static_cast<const UndefinedReason&>(*object_).message;
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  if (key.is_text()) {
    budget.charge(static_cast<int64_t>(members.size() / 16));
    return find(key.bytes());
  }
  for (const Member& member : members) {
    if (equal(member.first, key, budget)) return &member.second;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const Member& member : members) {
    if (member.first.is_text() && member.first.bytes() == key) return &member.second;
  }
  return nullptr;
}

void Dict::set(Value key, Value value, Budget& budget) {
  XRUN_JINJA_CHECK(is_hashable(key), "unhashable type: '{}'", type_name(key));
  depth = std::max({depth, depth_of(value) + 1, depth_of(key) + 1});
  require_depth(depth);
  if (const Value* old = find(key, budget)) {
    *const_cast<Value*>(old) = std::move(value);
    return;
  }
  XRUN_JINJA_CHECK(members.size() < kMaxListItems, "a dict grows beyond {} items", kMaxListItems);
  members.emplace_back(std::move(key), std::move(value));
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  if (const Value* old = find(name)) {
    *const_cast<Value*>(old) = std::move(value);
  } else {
    attributes.emplace_back(std::string(name), std::move(value));
  }
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kText: return value.markup() ? "Markup" : "str";
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "Namespace";
    case Kind::kLoop: return "LoopContext";
    case Kind::kFunction: return "function";
    case Kind::kList: break;
  }
  static constexpr std::string_view kNames[] = {"list",      "tuple",       "range",     "generator",
                                                "dict_keys", "dict_values", "dict_items"};
  return kNames[static_cast<int>(value.list().style)];
}

bool is_truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.as_int() != 0;
    case Kind::kFloat: return value.as_double() != 0;
    case Kind::kText: return !value.bytes().empty();
    // A generator is an object like any other: true even when it has nothing to give.
    case Kind::kList:
      return value.list().style == ListStyle::kGenerator || !value.list().items.empty();
    case Kind::kDict: return !value.dict().members.empty();
    case Kind::kLoop: return !value.loop().items.empty();
    case Kind::kNamespace:
    case Kind::kFunction: return true;
  }
  return true;
}

namespace {

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
    for (size_t at = 0; at < text.bytes.size();) {
      size_t end = at + 1;
      while (end < text.bytes.size() && (text.bytes[end] & 0xC0) == 0x80) ++end;
      out.push_back(Value::text(point_text(text, at, end)));
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

bool has_length(const Value& value) {
  if (value.is_list()) return value.list().style != ListStyle::kGenerator;
  return value.is_text() || value.is_dict() || value.is_undefined() || value.is(Kind::kLoop);
}

int64_t length_of(const Value& value) {
  XRUN_JINJA_CHECK(has_length(value), "object of type '{}' has no len()", type_name(value));
  if (value.is_text()) return text_length(value.text());
  if (value.is_list()) return static_cast<int64_t>(value.list().items.size());
  if (value.is_dict()) return static_cast<int64_t>(value.dict().members.size());
  if (value.is(Kind::kLoop)) return static_cast<int64_t>(value.loop().items.size());
  return 0;
}

Value value_of_json(const Json& json, Origin origin, int depth) {
  require_depth(depth);
  switch (json.kind()) {
    case Json::Kind::kNull: return Value::none();
    case Json::Kind::kBool: return Value::boolean(json.as_bool());
    case Json::Kind::kInt: return Value::integer(json.as_int());
    case Json::Kind::kDouble: return Value::number(json.as_double());
    case Json::Kind::kString: return Value::text(json.as_string(), {origin, 0});
    case Json::Kind::kArray: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json.as_array()) {
        items.push_back(value_of_json(item, origin, depth + 1));
      }
      return Value::list(std::move(items), ListStyle::kList, origin);
    }
    case Json::Kind::kObject: break;
  }
  auto dict = std::make_shared<Dict>();
  dict->origin = origin;
  for (const auto& [key, item] : json.as_object()) {
    Value value = value_of_json(item, origin, depth + 1);
    dict->depth = std::max(dict->depth, depth_of(value) + 1);
    // Keys of a Json object are already unique.
    dict->members.emplace_back(Value::text(key, {origin, 0}), std::move(value));
  }
  require_depth(dict->depth);
  return Value::dict(std::move(dict));
}

}  // namespace xrun::jinja
