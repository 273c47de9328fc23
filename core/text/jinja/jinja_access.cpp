// `a.b` tries Python's attribute first, then the key; `a["b"]` the reverse. Attributes that Jinja's
// sandbox refuses (names with an underscore, methods that change a list or dict) are undefined.

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_builtins.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"

namespace xrun::jinja {

namespace {

// Returns a string constant.
std::string_view object_name(const Value& object) {
  switch (object.kind()) {
    case ValueType::kNone: return "None";
    case ValueType::kNamespace: return "transformers Namespace object";
    case ValueType::kBool: return "bool object";
    case ValueType::kBigInt:
    case ValueType::kInt: return "int object";
    case ValueType::kFloat: return "float object";
    case ValueType::kText: return object.markup() ? "Markup object" : "str object";
    case ValueType::kDict: return "dict object";
    case ValueType::kFunction: return "function object";
    case ValueType::kList: break;
    case ValueType::kLoop: return "LoopContext object";
    case ValueType::kUndefined: return "Undefined object";
  }
  // In the order of ListStyle.
  static constexpr std::string_view kLists[] = {
      "list object",      "tuple object",       "range object",     "generator object",
      "dict_keys object", "dict_values object", "dict_items object"};
  return kLists[static_cast<int>(object.list().style)];
}

Value no_attribute(const Value& object, std::string_view name) {
  return Value::no_attribute(object_name(object), name);
}

// Returns true if dicts have a Python attribute of this name, which `.name` finds before the key.
// Chosen by the first letter: each attribute access of a message asks this.
bool is_dict_attribute(std::string_view name) {
  switch (name.empty() ? 0 : name[0]) {
    case 'c': return name == "copy" || name == "clear";
    case 'f': return name == "fromkeys";
    case 'g': return name == "get";
    case 'i': return name == "items";
    case 'k': return name == "keys";
    case 'p': return name == "pop" || name == "popitem";
    case 's': return name == "setdefault";
    case 'u': return name == "update";
    case 'v': return name == "values";
    default: return false;
  }
}

std::string loop_attribute_error(std::string_view name) {
  return fmt::format("'LoopContext object' has no attribute '{}'", name);
}

// loop.cycle(...) and loop.changed(...).
struct LoopMethod : Function {
  std::shared_ptr<Loop> loop;
  bool cycles = false;

  Value call(Interpreter& interpreter, Arguments& arguments) override {
    if (cycles) {
      XRUN_JINJA_CHECK(!arguments.positional.empty(), "no items for cycling given");
      return arguments.positional[loop->index % arguments.positional.size()];
    }
    Value seen = Value::list(arguments.positional, ListStyle::kTuple);
    // The first call is a change.
    const bool changed = !loop->has_seen || !equal(loop->last_seen, seen, interpreter.budget());
    loop->has_seen = true;
    loop->last_seen = std::move(seen);
    return Value::boolean(changed);
  }
  std::string repr() const override { return "<bound method>"; }
};

Value loop_attribute(const Value& object, std::string_view name) {
  const Loop& loop = object.loop();
  const auto index = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(loop.items.size());
  if (name == "index0") return Value::integer(index);
  if (name == "index") return Value::integer(index + 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == length);
  if (name == "length") return Value::integer(length);
  if (name == "revindex") return Value::integer(length - index);
  if (name == "revindex0") return Value::integer(length - index - 1);
  if (name == "depth") return Value::integer(loop.depth);
  if (name == "depth0") return Value::integer(loop.depth - 1);
  // Undefined at the ends, so that `loop.previtem is defined` detects them.
  if (name == "previtem") {
    return index > 0 ? loop.items[loop.index - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < length ? loop.items[loop.index + 1]
                              : Value::undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") {
    auto method = std::make_shared<LoopMethod>();
    // Keeps the loop alive as long as the method.
    method->loop = std::shared_ptr<Loop>(&object.loop(), [keep = object](Loop*) {});
    method->cycles = name == "cycle";
    method->depth = loop.nesting + 1;
    require_depth(method->depth);
    return Value::function(std::move(method));
  }
  return Value::undefined(loop_attribute_error(name));
}

// Gets the element of a list or text at an index; false if it is out of range.
bool element(const Value& object, int64_t index, Value& out, Budget& budget) {
  if (object.is_text()) {
    const Text& text = object.text();
    // Code points are counted from the start of the text.
    if (!text.ascii) budget.charge(static_cast<int64_t>(text.bytes.size() / 16));
    const int64_t length = text_length(text);
    // -1 is the last code point, as in Python.
    if (index < 0) index += length;
    if (index < 0 || index >= length) return false;
    const size_t begin = byte_of_point(text, index);
    size_t end = begin + 1;
    while (end < text.bytes.size() && is_continuation(text.bytes[end])) ++end;
    out = Value::text(slice_text(object.as_text(), begin, end));
    return true;
  }
  const std::vector<Value>& items = object.list().items;
  const auto length = static_cast<int64_t>(items.size());
  if (index < 0) index += length;
  if (index < 0 || index >= length) return false;
  out = items[static_cast<size_t>(index)];
  return true;
}

bool function_attribute(const Value& object, std::string_view name, Value& out) {
  return object.is(ValueType::kFunction) && object.function().attribute(name, out);
}

bool subscriptable(const Value& object) {
  // Lists, tuples and ranges, which come first in ListStyle; views and generators have no [].
  return object.is_text() || (object.is_list() && object.list().style <= ListStyle::kRange);
}

}  // namespace

Value Interpreter::get_attribute(const Value& object, std::string_view name) {
  XRUN_JINJA_CHECK(!object.is_undefined(), "{}", object.undefined_message());
  if (object.is(ValueType::kLoop)) return loop_attribute(object, name);
  if (object.is(ValueType::kNamespace)) {
    const Value* value = object.space().find(name);
    return value != nullptr ? *value : no_attribute(object, name);
  }
  // A method hides a key of its name: `message.items` is the method even if the message has such a
  // key.
  if (!object.is_dict() || is_dict_attribute(name)) {
    bool found = false;
    Value method = bind_method(object, name, found);
    if (found || function_attribute(object, name, method)) return method;
  }
  if (object.is_dict()) {
    // Charged by the members: the search is linear.
    budget_.charge(static_cast<int64_t>(object.dict().members.size() / 16));
    if (const Value* value = object.dict().find(name)) return *value;
  }
  return no_attribute(object, name);
}

Value Interpreter::get_item(const Value& object, const Value& key) {
  XRUN_JINJA_CHECK(!object.is_undefined(), "{}", object.undefined_message());
  if (object.is_dict()) {
    // An unhashable key is never found.
    if (const Value* value = is_hashable(key) ? object.dict().find(key, budget_) : nullptr)
      return *value;
  } else if (subscriptable(object) && key.is_integral()) {
    Value out;
    if (element(object, key.as_int(), out, budget_)) return out;
  }
  if (!key.is_text()) {
    return Value::undefined(fmt::format("{} has no element {}", object_name(object),
                                        shortened(repr(key, budget_), 80)));
  }
  // No such key: Jinja's getitem falls back to the attribute.
  if (object.is(ValueType::kLoop) || object.is(ValueType::kNamespace)) {
    return get_attribute(object, key.bytes());
  }
  // obj["x"] falls back to Python's attribute x, but never finds a key.
  if (object.is_dict() && !is_dict_attribute(key.bytes())) return no_attribute(object, key.bytes());
  bool found = false;
  Value method = bind_method(object, key.bytes(), found);
  found = found || function_attribute(object, key.bytes(), method);
  return found ? method : no_attribute(object, key.bytes());
}

}  // namespace xrun::jinja
