// Binding, and the methods of lists and dicts. Those that would change their object are refused, as
// the immutable sandbox of Jinja does.

#include "core/text/jinja/jinja_methods.h"

#include <algorithm>

#include "core/text/jinja/jinja_arguments.h"
#include "core/text/jinja/jinja_interpreter.h"

namespace xrun::jinja {

namespace {

struct BoundMethod : Function {
  Value self;
  std::string_view name;
  MethodBody body = nullptr;

  Value call(Interpreter& interpreter, Arguments& arguments) override {
    XRUN_JINJA_CHECK(body != nullptr, "the method '{}' of '{}' is not supported in templates", name,
                     type_name(self));
    if (self.is_text()) {
      interpreter.budget().charge(static_cast<int64_t>(self.bytes().size() / 8));
    }
    return body(interpreter, self, arguments);
  }
  std::string repr() const override {
    return fmt::format("<built-in method {} of {} object>", name, type_name(self));
  }
};

Value dict_view(const Value& self, ListStyle style, Budget& budget) {
  const Dict& dict = self.dict();
  budget.charge(static_cast<int64_t>(dict.members.size() / 4));
  std::vector<Value> items;
  for (const auto& [key, value] : dict.members) {
    if (style == ListStyle::kKeys) items.push_back(key);
    if (style == ListStyle::kValues) items.push_back(value);
    if (style == ListStyle::kItems) {
      items.push_back(Value::list({key, value}, ListStyle::kTuple, dict.origin));
    }
  }
  return Value::list(std::move(items), style, dict.origin);
}

template <ListStyle style>
Value dict_view_method(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader("view", arguments).finish();
  return dict_view(self, style, interpreter.budget());
}

Value dict_get(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("get", arguments);
  const Value key = reader.required("key");
  const Value* otherwise = reader.next("default");
  reader.finish();
  XRUN_JINJA_CHECK(is_hashable(key), "unhashable type: '{}'", type_name(key));
  if (const Value* value = self.dict().find(key, interpreter.budget())) return *value;
  return otherwise == nullptr ? Value::none() : *otherwise;
}

Value copy(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader("copy", arguments).finish();
  return self;  // nothing can change either of them
}

Value list_count(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("count", arguments);
  const Value wanted = reader.required("value");
  reader.finish();
  const std::vector<Value>& items = self.list().items;
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(item, wanted, interpreter.budget());
  }));
}

Value list_index(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("index", arguments);
  const Value wanted = reader.required("value");
  reader.finish();
  const std::vector<Value>& items = self.list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], wanted, interpreter.budget())) {
      return Value::integer(static_cast<int64_t>(i));
    }
  }
  throw Fault("the value is not in the list");
}

bool changes_object(const Value& self, std::string_view name) {
  static constexpr std::string_view kList[] = {"append", "clear",   "extend", "insert",
                                               "pop",    "reverse", "remove", "sort"};
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto in = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (self.is_dict()) return in(kDict);
  return self.is_list() && self.list().style == ListStyle::kList && in(kList);
}

}  // namespace

const MethodTable& list_methods() {
  static const MethodTable table = {{"copy", copy}, {"count", list_count}, {"index", list_index}};
  return table;
}

const MethodTable& dict_methods() {
  static const MethodTable table = {
      {"keys", dict_view_method<ListStyle::kKeys>},
      {"values", dict_view_method<ListStyle::kValues>},
      {"items", dict_view_method<ListStyle::kItems>},
      {"get", dict_get},
      {"copy", copy},
      {"fromkeys", nullptr},
  };
  return table;
}

Value bind_method(const Value& self, std::string_view name, bool& found) {
  found = true;
  if (changes_object(self, name)) {
    return Value::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(self)));
  }
  const bool copies = !self.is_list() || self.list().style == ListStyle::kList;
  const MethodTable* table = nullptr;
  if (self.is_text()) table = name.starts_with("is") ? &text_predicates() : &text_methods();
  if (self.is_dict()) table = &dict_methods();
  const bool list = self.is_list() && self.list().style <= ListStyle::kRange;
  if (list) table = &list_methods();
  if (table != nullptr) {
    if (const auto it = table->find(name); it != table->end() && (copies || name != "copy")) {
      auto method = std::make_shared<BoundMethod>();
      method->self = self;
      method->name = it->first;
      method->body = it->second;
      method->depth = depth_of(self) + 1;
      require_depth(method->depth);
      return Value::function(std::move(method));
    }
  }
  found = false;
  return {};
}

}  // namespace xrun::jinja
