// Filters over sequences and mappings. Those that Python writes as generators give generators:
// always true, without length, gone once read.

#include <algorithm>
#include <optional>

#include "core/text/jinja/jinja_arguments.h"
#include "core/text/jinja/jinja_filters.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"
#include "core/text/jinja/jinja_strings.h"

namespace xrun::jinja {

namespace {

Value length(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("length", arguments).finish();
  if (input.is_text() && !input.text().ascii)
    interpreter.budget().charge_bytes(input.bytes().size());
  return Value::integer(length_of(input));
}

Value list(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("list", arguments).finish();
  const Origin origin = input.is_list() ? input.list().origin : Origin::kTemplate;
  return Value::list(iterate(input, interpreter.budget()), ListStyle::kList, origin);
}

// A character of a text that has one, without a value for each of the others.
std::optional<Value> one_point(const Value& input, int64_t index, Budget& budget) {
  if (!input.is_text() || input.bytes().empty()) return {};
  const Value end = index == -1 ? Value::none() : Value::integer(index + 1);
  return Value::text(slice(input, Value::integer(index), end, Value::none(), budget).as_text());
}

Value first(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("first", arguments).finish();
  if (input.is_list() && input.list().style == ListStyle::kGenerator) {
    List& items = input.list();
    if (items.taken < items.items.size()) return items.items[items.taken++];
  }
  if (const std::optional<Value> point = one_point(input, 0, interpreter.budget())) return *point;
  const std::vector<Value> items = iterate(input, interpreter.budget());
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("last", arguments).finish();
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
    const bool whole = attribute == nullptr || attribute->is_none();
    parts.push_back(to_text(whole ? item : path_attribute(interpreter, item, *attribute), budget));
  }
  return Value::text(join_list(*between, parts, budget));
}

Value otherwise(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader reader("default", arguments);
  const Value* value = reader.next("default_value");
  const bool boolean = reader.boolean("boolean", false);
  reader.finish();
  const bool missing = input.is_undefined() || (boolean && !is_truthy(input));
  if (!missing) return input;
  return value == nullptr ? Value::text("") : *value;
}

Value items(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader("items", arguments).finish();
  if (input.is_undefined()) return Value::generator({});
  XRUN_JINJA_CHECK(input.is_dict(), "Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.dict().members) {
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
  std::vector<Member> members = input.dict().members;
  const auto key = [&](const Member& member) {
    return sort_key(by_value ? member.second : member.first, case_sensitive);
  };
  std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
    return reversed ? less(key(b), key(a), budget) : less(key(a), key(b), budget);
  });
  std::vector<Value> pairs;
  for (const auto& [name, value] : members) {
    pairs.push_back(Value::list({name, value}, ListStyle::kTuple, input.dict().origin));
  }
  return Value::list(std::move(pairs));
}

// Several attributes, between commas, sort by the first that differs. Keys that are equal are never
// asked which is less, so that what is undefined may be everywhere.
Value attribute_key(Interpreter& interpreter, const Value& item, const Value& attribute,
                    bool case_sensitive) {
  std::vector<Value> keys;
  const auto add = [&](const Value& path) {
    keys.push_back(sort_key(path_attribute(interpreter, item, path), case_sensitive));
  };
  if (!attribute.is_text()) {
    add(attribute);
  } else {
    const TextPtr comma = make_text(",");
    for (const TextPtr& path :
         split_text(attribute.as_text(), comma.get(), -1, interpreter.budget())) {
      add(Value::text(path));
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
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : iterate(input, budget)) {
    const bool whole = attribute == nullptr || attribute->is_none();
    Value key = whole ? Value::list({sort_key(item, case_sensitive)})
                      : attribute_key(interpreter, item, *attribute, case_sensitive);
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
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (const Value& item : iterate(input, interpreter.budget())) {
    const Value whole = attribute == nullptr ? item : path_attribute(interpreter, item, *attribute);
    const Value key = sort_key(whole, case_sensitive);
    XRUN_JINJA_CHECK(is_hashable(key), "unhashable type: '{}'", type_name(key));
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const Value& other) {
      return equal(key, other, interpreter.budget());
    });
    if (known) continue;
    seen.push_back(key);
    kept.push_back(item);
  }
  return Value::generator(std::move(kept));
}

template <bool largest>
Value extreme(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("min", arguments);
  const bool case_sensitive = reader.boolean("case_sensitive", false);
  const Value* attribute = reader.next("attribute");
  reader.finish();
  Value best = Value::undefined("No aggregated item, sequence was empty.");
  Value best_key;
  bool some = false;
  for (const Value& item : iterate(input, interpreter.budget())) {
    const Value key =
        sort_key(attribute == nullptr ? item : path_attribute(interpreter, item, *attribute),
                 case_sensitive);
    Budget& budget = interpreter.budget();
    if (some && !(largest ? less(best_key, key, budget) : less(key, best_key, budget))) continue;
    best = item;
    best_key = key;
    some = true;
  }
  return best;
}

// How batch and slice cut: into lists of a size, or into a number of them.
struct Cut {
  int64_t number;
  std::optional<Value> fill;  // what goes where items are missing
};

Cut read_cut(const char* filter, const char* name, Arguments& arguments) {
  ArgumentReader reader(filter, arguments);
  Cut cut{reader.integer(name, 0), {}};
  const Value* fill = reader.next("fill_with");
  reader.finish();
  XRUN_JINJA_CHECK(cut.number > 0 && cut.number <= 100'000, "{}() wants a {} of 1 to 100,000",
                   filter, name);
  if (fill != nullptr && !fill->is_none()) cut.fill = *fill;
  return cut;
}

Value batch(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  const Cut cut = read_cut("batch", "linecount", arguments);
  const auto size = static_cast<size_t>(cut.number);
  std::vector<Value> lines;
  std::vector<Value> line;
  for (const Value& item : iterate(input, interpreter.budget())) {
    if (line.size() == size) lines.push_back(Value::list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (!line.empty()) {
    if (cut.fill) line.resize(size, *cut.fill);
    lines.push_back(Value::list(std::move(line)));
  }
  return Value::generator(std::move(lines));
}

// slice(3): that many lists in a row, the first ones longer by one where it does not come out even.
Value slices(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  const Cut cut = read_cut("slice", "slices", arguments);
  const std::vector<Value> items = iterate(input, interpreter.budget());
  interpreter.budget().charge(cut.number);
  const auto count = static_cast<size_t>(cut.number);
  const size_t each = items.size() / count;
  const size_t longer = items.size() % count;
  std::vector<Value> lists;
  auto at = items.begin();
  for (size_t i = 0; i < count; ++i) {
    const auto end = at + static_cast<ptrdiff_t>(each + (i < longer ? 1 : 0));
    std::vector<Value> list(at, end);
    if (cut.fill && i >= longer) list.push_back(*cut.fill);
    lists.push_back(Value::list(std::move(list)));
    at = end;
  }
  return Value::generator(std::move(lists));
}

}  // namespace

const FilterTable& list_filters() {
  static const FilterTable table = {
      {"length", length}, {"count", length},       {"list", list},          {"first", first},
      {"last", last},     {"reverse", reverse},    {"join", join},          {"default", otherwise},
      {"d", otherwise},   {"items", items},        {"dictsort", dict_sort}, {"sort", sort},
      {"unique", unique}, {"min", extreme<false>}, {"max", extreme<true>},  {"batch", batch},
      {"slice", slices},
  };
  return table;
}

}  // namespace xrun::jinja
