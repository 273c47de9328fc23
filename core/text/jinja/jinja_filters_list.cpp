// Filters over sequences and mappings. Filters that are generators in Jinja give generators here:
// always true, without length, empty once read.

#include <algorithm>
#include <optional>

#include "core/text/jinja/jinja_builtins.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"
#include "core/text/jinja/jinja_strings.h"

namespace xrun::jinja {

namespace {

Value sort_key(const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_text()) return value;
  return Value::text(lower_text(value.text()));
}

// Returns the attribute of an item that a filter's `attribute` argument names, as Jinja's
// make_attrgetter does: an index, or a dotted path of names and indices such as "a.b.0". Without a
// path (null or None) it is the item itself. Missing attributes are undefined.
Value path_attribute(Interpreter& interpreter, const Value& item, const Value* path) {
  if (path == nullptr || path->is_none()) return item;
  if (!path->is_text()) return interpreter.get_item(item, *path);
  Value at = item;
  const TextPtr dot = make_text(".");
  for (const TextPtr& part : split_text(path->as_text(), dot.get(), -1, interpreter.budget())) {
    // Fewer than ten digits: stoll cannot overflow.
    const bool index = !part->bytes.empty() && part->bytes.size() < 10 &&
                       std::all_of(part->bytes.begin(), part->bytes.end(),
                                   [](char c) { return c >= '0' && c <= '9'; });
    at = interpreter.get_item(at,
                              index ? Value::integer(std::stoll(part->bytes)) : Value::text(part));
  }
  return at;
}

Value length(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("length", arguments).finish();
  // Only such a text has to be counted character by character.
  if (input.is_text() && !input.text().ascii)
    interpreter.budget().charge_bytes(input.bytes().size());
  return Value::integer(length_of(input));
}

Value list(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("list", arguments).finish();
  // The copy and its printed brackets have the origin of the list.
  const Origin origin = input.is_list() ? input.list().origin : Origin::kTemplate;
  return Value::list(iterate(input, interpreter.budget()), ListStyle::kList, origin);
}

// Returns one character of a non-empty text without building a list of all characters.
std::optional<Value> one_point(const Value& input, int64_t index, Budget& budget) {
  if (!input.is_text() || input.bytes().empty()) return {};
  // -1 + 1 would be the beginning.
  const Value end = index == -1 ? Value::none() : Value::integer(index + 1);
  return Value::text(slice(input, Value::integer(index), end, Value::none(), budget).as_text());
}

Value first(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("first", arguments).finish();
  if (input.is_list() && input.list().style == ListStyle::kGenerator) {
    List& items = input.list();
    // Takes one item of the generator; a later loop sees the rest.
    if (items.taken < items.items.size()) return items.items[items.taken++];
  }
  if (const std::optional<Value> point = one_point(input, 0, interpreter.budget())) return *point;
  const std::vector<Value> items = iterate(input, interpreter.budget());
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("last", arguments).finish();
  // Python's reversed() takes only sequences and dicts.
  const bool reversible = !input.is_list() || input.list().style != ListStyle::kGenerator;
  XRUN_JINJA_CHECK(reversible, "'generator' object is not reversible");
  if (const std::optional<Value> point = one_point(input, -1, interpreter.budget())) return *point;
  const std::vector<Value> items = iterate(input, interpreter.budget());
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("reverse", arguments).finish();
  if (input.is_text()) {
    const Value none = Value::none();
    const Value reversed = slice(input, none, none, Value::integer(-1), interpreter.budget());
    return Value::text(reversed.as_text());
  }
  std::vector<Value> items = iterate(input, interpreter.budget());
  std::reverse(items.begin(), items.end());
  return Value::generator(std::move(items));
}

Value join(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("join", arguments);
  const Value* separator = reader.next("d");
  const Value* attribute = reader.next("attribute");
  reader.finish();
  Budget& budget = interpreter.budget();
  const TextPtr between = separator == nullptr ? make_text("") : to_text(*separator, budget);
  std::vector<TextPtr> parts;
  for (const Value& item : iterate(input, budget)) {
    parts.push_back(to_text(path_attribute(interpreter, item, attribute), budget));
  }
  return Value::text(join_list(*between, parts, budget));
}

Value default_filter(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader reader("default", arguments);
  const Value* value = reader.next("default_value");
  const bool boolean = reader.boolean("boolean", false);
  reader.finish();
  // With boolean = true any false value counts as missing.
  const bool missing = input.is_undefined() || (boolean && !is_truthy(input));
  if (!missing) return input;
  return value == nullptr ? Value::text("") : *value;
}

Value items(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader("items", arguments).finish();
  // As in Jinja, an undefined mapping has no items.
  if (input.is_undefined()) return Value::generator({});
  XRUN_JINJA_CHECK(input.is_dict(), "Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.dict().members) {
    // A printed pair has brackets of its own, with the origin of the mapping.
    pairs.push_back(Value::list({key, value}, ListStyle::kTuple, input.dict().origin));
  }
  return Value::generator(std::move(pairs));
}

Value dict_sort(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("dictsort", arguments);
  const bool case_sensitive = reader.boolean("case_sensitive", false);
  const TextPtr by = reader.text("by");
  const bool reversed = reader.boolean("reverse", false);
  reader.finish();
  XRUN_JINJA_CHECK(by == nullptr || by->bytes == "key" || by->bytes == "value",
                   "You can only sort by either \"key\" or \"value\"");
  XRUN_JINJA_CHECK(input.is_dict(), "'{}' object has no attribute 'items'", type_name(input));
  const bool by_value = by != nullptr && by->bytes == "value";
  Budget& budget = interpreter.budget();
  std::vector<DictItem> members = input.dict().members;
  const auto key = [&](const DictItem& member) {
    // Only the sort key is in lower case; the member is unchanged.
    return sort_key(by_value ? member.second : member.first, case_sensitive);
  };
  // Swapped operands keep equal members in their order, as Python's reverse=True does.
  std::stable_sort(members.begin(), members.end(), [&](const DictItem& a, const DictItem& b) {
    return reversed ? less(key(b), key(a), budget) : less(key(a), key(b), budget);
  });
  std::vector<Value> pairs;
  for (const auto& [name, value] : members) {
    pairs.push_back(Value::list({name, value}, ListStyle::kTuple, input.dict().origin));
  }
  return Value::list(std::move(pairs));
}

// Comma-separated attributes sort by the first that differs. Equal keys are never ordered, so an
// attribute may be undefined everywhere.
Value attribute_key(Interpreter& interpreter, const Value& item, const Value* attribute,
                    bool case_sensitive) {
  std::vector<Value> keys;
  const auto add = [&](const Value* path) {
    keys.push_back(sort_key(path_attribute(interpreter, item, path), case_sensitive));
  };
  if (attribute == nullptr || !attribute->is_text()) {
    add(attribute);
  } else {
    const TextPtr comma = make_text(",");
    for (const TextPtr& path :
         split_text(attribute->as_text(), comma.get(), -1, interpreter.budget())) {
      const Value one = Value::text(path);
      add(&one);
    }
  }
  return Value::list(std::move(keys));
}

Value sort(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("sort", arguments);
  const bool reversed = reader.boolean("reverse", false);
  const bool case_sensitive = reader.boolean("case_sensitive", false);
  const Value* attribute = reader.next("attribute");
  reader.finish();
  Budget& budget = interpreter.budget();
  // Keys are made once per item, not once per comparison.
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : iterate(input, budget)) {
    Value key = attribute_key(interpreter, item, attribute, case_sensitive);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reversed ? less(b.first, a.first, budget) : less(a.first, b.first, budget);
  });
  std::vector<Value> sorted;
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return Value::list(std::move(sorted));
}

Value unique(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("unique", arguments);
  const bool case_sensitive = reader.boolean("case_sensitive", false);
  const Value* attribute = reader.next("attribute");
  reader.finish();
  // In the order of first occurrence.
  std::vector<Value> seen;
  std::vector<Value> out;
  for (const Value& item : iterate(input, interpreter.budget())) {
    const Value key = sort_key(path_attribute(interpreter, item, attribute), case_sensitive);
    XRUN_JINJA_CHECK(is_hashable(key), "unhashable type: '{}'", type_name(key));
    // Quadratic, but every comparison is charged.
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const Value& other) {
      return equal(key, other, interpreter.budget());
    });
    if (known) continue;
    seen.push_back(key);
    out.push_back(item);
  }
  return Value::generator(std::move(out));
}

template <bool largest>
Value extreme(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader(largest ? "max" : "min", arguments);
  const bool case_sensitive = reader.boolean("case_sensitive", false);
  const Value* attribute = reader.next("attribute");
  reader.finish();
  Value best = Value::undefined("No aggregated item, sequence was empty.");
  Value best_key;
  bool some = false;
  for (const Value& item : iterate(input, interpreter.budget())) {
    const Value key = sort_key(path_attribute(interpreter, item, attribute), case_sensitive);
    Budget& budget = interpreter.budget();
    // The first of equal items stays, as in Python.
    if (some && !(largest ? less(best_key, key, budget) : less(key, best_key, budget))) continue;
    best = item;
    best_key = key;
    some = true;
  }
  return best;
}

// map(attribute=..., default=...), or map("filter", its arguments).
Value map(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  if (!is_truthy(input)) return Value::generator({});  // whatever its type
  std::vector<Value> out;
  // A keyword argument, or null.
  const auto named = [&](std::string_view name) -> const Value* {
    for (const auto& [key, value] : arguments.named) {
      if (key == name) return &value;
    }
    return nullptr;
  };
  if (const Value* attribute = named("attribute");
      attribute != nullptr && arguments.positional.empty()) {
    const Value* fallback = named("default");
    for (const Value& item : iterate(input, interpreter.budget())) {
      Value value = path_attribute(interpreter, item, attribute);
      out.push_back(value.is_undefined() && fallback != nullptr ? *fallback : std::move(value));
    }
    return Value::generator(std::move(out));
  }
  XRUN_JINJA_CHECK(!arguments.positional.empty() && arguments.positional[0].is_text(),
                   "map requires a filter argument");
  const std::string name = arguments.positional[0].bytes();
  for (const Value& item : iterate(input, interpreter.budget())) {
    // Each call gets its own copy, without the filter's name.
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    interpreter.budget().charge(2);
    out.push_back(interpreter.apply_filter(name, item, rest));
  }
  return Value::generator(std::move(out));
}

// select, reject, selectattr, rejectattr: by a test, or by truth without one.
template <bool wanted, bool by_attribute>
Value pick(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  if (!is_truthy(input)) return Value::generator({});
  size_t used = 0;
  Value attribute;
  if (by_attribute) {
    XRUN_JINJA_CHECK(!arguments.positional.empty(), "Missing parameter for attribute name");
    attribute = arguments.positional[used++];
  }
  std::string test;
  if (arguments.positional.size() > used) {
    XRUN_JINJA_CHECK(arguments.positional[used].is_text(), "the name of a test must be a str");
    test = arguments.positional[used++].bytes();
  }
  std::vector<Value> out;
  for (Value& item : iterate(input, interpreter.budget())) {
    const Value value = by_attribute ? path_attribute(interpreter, item, &attribute) : item;
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin(),
                          rest.positional.begin() + static_cast<ptrdiff_t>(used));
    interpreter.budget().charge(2);
    const bool passed = test.empty() ? is_truthy(value) : interpreter.apply_test(test, value, rest);
    if (passed == wanted) out.push_back(std::move(item));
  }
  return Value::generator(std::move(out));
}

}  // namespace

const FilterTable& list_filters() {
  static const FilterTable table = {
      {"count", length},
      {"d", default_filter},
      {"default", default_filter},
      {"dictsort", dict_sort},
      {"first", first},
      {"items", items},
      {"join", join},
      {"last", last},
      {"length", length},
      {"list", list},
      {"map", map},
      {"max", extreme<true>},
      {"min", extreme<false>},
      {"reject", pick<false, false>},
      {"rejectattr", pick<false, true>},
      {"reverse", reverse},
      {"select", pick<true, false>},
      {"selectattr", pick<true, true>},
      {"sort", sort},
      {"unique", unique},
  };
  return table;
}

Value Interpreter::apply_filter(const std::string& name, const Value& input, Arguments& arguments) {
  // Charged because a filter reads its input at least once.
  if (input.is_text()) budget_.charge(static_cast<int64_t>(input.bytes().size() / 8));
  for (const FilterTable* table : {&scalar_filters(), &list_filters()}) {
    const auto it = table->find(name);
    if (it != table->end()) return it->second(*this, input, arguments);
  }
  throw Fault(fmt::format("the filter '{}' is not supported in chat templates", name));
}

}  // namespace xrun::jinja
