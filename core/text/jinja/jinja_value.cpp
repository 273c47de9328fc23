// Scalars live in the value itself, everything else behind a shared pointer.

#include "core/text/jinja/jinja_value.h"

#include <algorithm>

#include "core/text/jinja/jinja_operators.h"

namespace xrun::jinja {

namespace {

// A message, or the owner and name of a missing attribute.
struct UndefinedReason : SharedValue {
  std::string message;
  std::string_view owner;  // a string constant
  std::string name;
};

// Tuples may share items, so a small key can have an astronomical number of leaves.
constexpr int64_t kMaxKeyItems = 100'000;

bool is_hashable_item(const Value& value, int64_t& items) {
  XRUN_JINJA_CHECK(++items <= kMaxKeyItems, "a key has more than {} items", kMaxKeyItems);
  if (value.is_dict()) return false;
  if (!value.is_list()) return true;
  const List& list = value.list();
  if (list.style != ListStyle::kTuple) {
    // As in Python: views of keys and items compare as sets, so they have no hash.
    return list.style != ListStyle::kList && list.style != ListStyle::kKeys &&
           list.style != ListStyle::kItems;
  }
  return std::all_of(list.items.begin(), list.items.end(),
                     [&](const Value& item) { return is_hashable_item(item, items); });
}

}  // namespace

bool is_hashable(const Value& value) {
  int64_t items = 0;
  return is_hashable_item(value, items);
}

int depth_of(const Value& value) {
  if (value.is_list()) return value.list().depth;
  if (value.is_dict()) return value.dict().depth;
  if (value.is(ValueType::kLoop)) return value.loop().nesting;
  if (value.is(ValueType::kFunction)) return value.function().depth;
  return 0;
}

void require_depth(int depth) {
  XRUN_JINJA_CHECK(depth <= kMaxValueDepth, "values nest deeper than {}", kMaxValueDepth);
}

Value Value::undefined(std::string message) {
  auto reason = std::make_shared<UndefinedReason>();
  reason->message = std::move(message);
  return Value(ValueType::kUndefined, std::move(reason));
}

Value Value::no_attribute(std::string_view owner, std::string_view name) {
  auto reason = std::make_shared<UndefinedReason>();
  reason->owner = owner;
  reason->name = name;
  return Value(ValueType::kUndefined, std::move(reason));
}

Value Value::no_name(std::string_view name) { return no_attribute({}, name); }

Value Value::boolean(bool value) {
  Value out(ValueType::kBool);
  out.integer_ = value ? 1 : 0;
  return out;
}

Value Value::integer(int64_t value) {
  Value out(ValueType::kInt);
  out.integer_ = value;
  return out;
}

Value Value::number(double value) {
  Value out(ValueType::kFloat);
  out.number_ = value;
  return out;
}

Value Value::big_integer(std::string_view digits) {
  // The digits as text: such an integer is printed and compared, never computed with.
  return Value(ValueType::kBigInt, make_text(digits, {}));
}

Value Value::text(TextPtr text, bool markup) {
  Value out(ValueType::kText, std::move(text));
  out.markup_ = markup;
  return out;
}

Value Value::list(std::shared_ptr<List> list) {
  XRUN_JINJA_CHECK(list->items.size() <= kMaxListItems, "a list grows beyond {} items",
                   kMaxListItems);
  // Computed when the list is made: depth checks then need no walk, and sharing cannot hide depth.
  list->depth = 1;
  for (const Value& item : list->items) list->depth = std::max(list->depth, depth_of(item) + 1);
  require_depth(list->depth);
  return Value(ValueType::kList, std::move(list));
}

Value Value::list(std::vector<Value> items, ListStyle style, Origin origin) {
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  list->style = style;
  list->origin = origin;
  return Value::list(std::move(list));
}

// 128 bits, since the bounds of a slice of a range may exceed 64.
Value Value::range(std::vector<Value> items, __int128 start, __int128 stop, __int128 step) {
  auto range = std::make_shared<RangeList>();
  range->items = std::move(items);
  range->style = ListStyle::kRange;
  range->start = start;
  range->stop = stop;
  range->step = step;
  return Value::list(std::shared_ptr<List>(std::move(range)));
}

Value Value::dict(std::shared_ptr<Dict> dict) { return Value(ValueType::kDict, std::move(dict)); }
Value Value::space(std::shared_ptr<Namespace> s) {
  return Value(ValueType::kNamespace, std::move(s));
}
Value Value::loop(std::shared_ptr<Loop> loop) { return Value(ValueType::kLoop, std::move(loop)); }
Value Value::function(std::shared_ptr<Function> function) {
  return Value(ValueType::kFunction, std::move(function));
}

// The pointee was created mutable; shared ownership is const only to fit strings.
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
  // Formatted only here: most undefined values are tested, never reported.
  if (object_ == nullptr) return "the value is undefined";
  const auto& reason = static_cast<const UndefinedReason&>(*object_);
  if (!reason.message.empty()) return reason.message;
  if (reason.owner.empty()) return fmt::format("'{}' is undefined", reason.name);
  return fmt::format("'{}' has no attribute '{}'", reason.owner, reason.name);
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  // Keys are mostly text, which is compared without `equal` and its charges.
  if (key.is_text()) {
    budget.charge(static_cast<int64_t>(members.size() / 16));
    return find(key.bytes());
  }
  for (const DictItem& member : members) {
    if (equal(member.first, key, budget)) return &member.second;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const DictItem& member : members) {
    if (member.first.is_text() && member.first.bytes() == key) return &member.second;
  }
  return nullptr;
}

void Dict::set(Value key, Value value, Budget& budget) {
  XRUN_JINJA_CHECK(is_hashable(key), "unhashable type: '{}'", type_name(key));
  // Before the insertion: a value that nests too deep is never stored.
  depth = std::max({depth, depth_of(value) + 1, depth_of(key) + 1});
  require_depth(depth);
  if (const Value* old = find(key, budget)) {
    *const_cast<Value*>(old) = std::move(value);
    return;
  }
  XRUN_JINJA_CHECK(members.size() < kMaxListItems, "a dict grows beyond {} items", kMaxListItems);
  // Linear look-ups: dicts of templates have a few members, and each look-up is charged by their
  // number.
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
    case ValueType::kUndefined: return "Undefined";
    case ValueType::kNone: return "NoneType";
    case ValueType::kBool: return "bool";
    case ValueType::kInt: return "int";
    case ValueType::kFloat: return "float";
    case ValueType::kBigInt: return "int beyond 64 bits";
    case ValueType::kText: return value.markup() ? "Markup" : "str";
    case ValueType::kDict: return "dict";
    case ValueType::kNamespace: return "Namespace";
    case ValueType::kLoop: return "LoopContext";
    case ValueType::kFunction: return "function";
    case ValueType::kList: break;
  }
  static constexpr std::string_view kNames[] = {
      "list", "tuple", "range", "generator", "dict_keys", "dict_values", "dict_items"};
  return kNames[static_cast<int>(value.list().style)];
}

bool is_truthy(const Value& value) {
  switch (value.kind()) {
    case ValueType::kUndefined:
    case ValueType::kNone: return false;
    case ValueType::kBool:
    case ValueType::kInt: return value.as_int() != 0;
    case ValueType::kFloat: return value.as_double() != 0;
    case ValueType::kText: return !value.bytes().empty();
    // A generator is true even when it is empty.
    case ValueType::kList:
      return value.list().style == ListStyle::kGenerator || !value.list().items.empty();
    // Beyond 64 bits, so it is not 0.
    case ValueType::kBigInt: return true;
    case ValueType::kDict: return !value.dict().members.empty();
    case ValueType::kLoop: return !value.loop().items.empty();
    case ValueType::kNamespace:
    case ValueType::kFunction: return true;
  }
  return true;
}

int64_t length_of(const Value& value) {
  if (value.is_text()) return text_length(value.text());
  if (value.is_list() && value.list().style != ListStyle::kGenerator) {
    return static_cast<int64_t>(value.list().items.size());
  }
  if (value.is_dict()) return static_cast<int64_t>(value.dict().members.size());
  if (value.is(ValueType::kLoop)) return static_cast<int64_t>(value.loop().items.size());
  // Jinja's Undefined has the length 0.
  XRUN_JINJA_CHECK(value.is_undefined(), "object of type '{}' has no len()", type_name(value));
  return 0;
}

}  // namespace xrun::jinja
