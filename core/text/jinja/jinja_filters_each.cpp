// Filters that apply a path, a filter or a test to each item, and the lookup of filters by name.

#include <algorithm>

#include "core/text/jinja/jinja_arguments.h"
#include "core/text/jinja/jinja_filters.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_strings.h"

namespace xrun::jinja {

Value sort_key(const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_text()) return value;
  return Value::text(lower_text(value.text()));
}

Value path_attribute(Interpreter& interpreter, const Value& item, const Value& path) {
  if (!path.is_text()) return interpreter.get_item(item, path);
  Value at = item;
  const TextPtr dot = make_text(".");
  for (const TextPtr& part : split_text(path.as_text(), dot.get(), -1, interpreter.budget())) {
    const bool index = !part->bytes.empty() && part->bytes.size() < 10 &&
                       std::all_of(part->bytes.begin(), part->bytes.end(),
                                   [](char c) { return c >= '0' && c <= '9'; });
    at = interpreter.get_item(at,
                              index ? Value::integer(std::stoll(part->bytes)) : Value::text(part));
  }
  return at;
}

namespace {

Value sum(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("sum", arguments);
  const Value* attribute = reader.next("attribute");
  const Value* start = reader.next("start");
  reader.finish();
  XRUN_JINJA_CHECK(start == nullptr || !start->is_text(), "sum() can't sum strings");
  Value total = start == nullptr ? Value::integer(0) : *start;
  for (const Value& item : iterate(input, interpreter.budget())) {
    const bool whole = attribute == nullptr || attribute->is_none();
    total = apply_binary("+", total, whole ? item : path_attribute(interpreter, item, *attribute),
                         interpreter.budget());
  }
  return total;
}

Value attribute_of(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("attr", arguments);
  const TextPtr name = reader.text("name");
  reader.finish();
  XRUN_JINJA_CHECK(name != nullptr, "attr() wants a name");
  if (input.is_dict()) {  // attributes only, never keys
    bool found = false;
    const Value method = bind_method(input, name->bytes, found);
    if (found) return method;
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name->bytes));
  }
  return interpreter.get_attribute(input, name->bytes);
}

// map(attribute=..., default=...), or map("filter", its arguments).
Value map(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  if (!is_truthy(input)) return Value::generator({});  // whatever it is
  std::vector<Value> out;
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
      Value value = path_attribute(interpreter, item, *attribute);
      out.push_back(value.is_undefined() && fallback != nullptr ? *fallback : std::move(value));
    }
    return Value::generator(std::move(out));
  }
  XRUN_JINJA_CHECK(!arguments.positional.empty() && arguments.positional[0].is_text(),
                   "map requires a filter argument");
  const std::string name = arguments.positional[0].bytes();
  for (const Value& item : iterate(input, interpreter.budget())) {
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    interpreter.budget().charge(2);
    out.push_back(interpreter.apply_filter(name, item, rest));
  }
  return Value::generator(std::move(out));
}

// select, reject, selectattr, rejectattr: by a test, or by truth.
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
  std::vector<Value> kept;
  for (Value& item : iterate(input, interpreter.budget())) {
    const Value value = by_attribute ? path_attribute(interpreter, item, attribute) : item;
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin(),
                          rest.positional.begin() + static_cast<ptrdiff_t>(used));
    interpreter.budget().charge(2);
    const bool passed = test.empty() ? is_truthy(value) : interpreter.apply_test(test, value, rest);
    if (passed == wanted) kept.push_back(std::move(item));
  }
  return Value::generator(std::move(kept));
}

// groupby(attribute, default, case_sensitive): (value, items) pairs in the order of the values.
Value group_by(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("groupby", arguments);
  const Value attribute = reader.required("attribute");
  const Value* fallback = reader.next("default");
  const bool case_sensitive = reader.boolean("case_sensitive", false);
  reader.finish();
  Budget& budget = interpreter.budget();
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(input, budget)) {
    Value key = path_attribute(interpreter, item, attribute);
    if (key.is_undefined() && fallback != nullptr) key = *fallback;
    keyed.emplace_back(std::move(key), item);
  }
  const auto key_of = [&](const auto& pair) { return sort_key(pair.first, case_sensitive); };
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return less(key_of(a), key_of(b), budget);
  });
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size();) {
    std::vector<Value> members;
    const size_t begin = i;
    for (; i < keyed.size() && equal(key_of(keyed[begin]), key_of(keyed[i]), budget); ++i) {
      members.push_back(keyed[i].second);
    }
    groups.push_back(
        Value::list({keyed[begin].first, Value::list(std::move(members))}, ListStyle::kTuple));
    groups.back().list().group = true;
  }
  return Value::list(std::move(groups));
}

const FilterTable& each_filters() {
  static const FilterTable table = {
      {"map", map},
      {"sum", sum},
      {"attr", attribute_of},
      {"groupby", group_by},
      {"select", pick<true, false>},
      {"reject", pick<false, false>},
      {"selectattr", pick<true, true>},
      {"rejectattr", pick<false, true>},
  };
  return table;
}

}  // namespace

FilterBody find_filter(std::string_view name) {
  for (const FilterTable* table :
       {&text_filters(), &number_filters(), &list_filters(), &each_filters()}) {
    const auto it = table->find(name);
    if (it != table->end()) return it->second;
  }
  return nullptr;
}

Value Interpreter::apply_filter(const std::string& name, const Value& input, Arguments& arguments) {
  const FilterBody filter = find_filter(name);
  XRUN_JINJA_CHECK(filter != nullptr, "No filter named '{}'.", name);
  if (input.is_text()) budget_.charge(static_cast<int64_t>(input.bytes().size() / 8));
  return filter(*this, input, arguments);
}

}  // namespace xrun::jinja
