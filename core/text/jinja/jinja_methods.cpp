// Methods of str and dict that public chat templates call. Methods that change their object are
// refused, as in Jinja's immutable sandbox.

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_builtins.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"
#include "core/text/jinja/jinja_strings.h"

namespace xrun::jinja {

namespace {

using MethodBody = Value (*)(Interpreter&, const Value& self, Arguments&);
using MethodTable = std::map<std::string_view, MethodBody>;

struct BoundMethod : Function {
  Value self;
  std::string name;
  MethodBody body = nullptr;  // null: not supported

  Value call(Interpreter& interpreter, Arguments& arguments) override {
    XRUN_JINJA_CHECK(body != nullptr, "the method {}.{}() is not supported in chat templates",
                     type_name(self), name);
    if (self.is_text()) {
      interpreter.budget().charge(static_cast<int64_t>(self.bytes().size() / 8));
    }
    return body(interpreter, self, arguments);
  }
  std::string repr() const override {
    return fmt::format("<built-in method {} of {} object>", name, type_name(self));
  }
};

Value like(const Value& self, TextPtr text) { return Value::text(std::move(text), self.markup()); }

template <StripSide side>
Value strip(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("strip", arguments);
  const TextPtr chars = reader.text("chars");
  reader.finish();
  // Each character of the text is searched in `chars`.
  if (chars != nullptr) {
    interpreter.budget().charge_bytes(self.bytes().size() * chars->bytes.size());
  }
  return like(self, strip_text(self.as_text(), side, chars.get()));
}

Value split(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("split", arguments);
  const TextPtr separator = reader.text("sep");
  const int64_t most = reader.integer("maxsplit", -1);
  reader.finish();
  std::vector<Value> pieces;
  for (TextPtr& piece : split_text(self.as_text(), separator.get(), most, interpreter.budget())) {
    // Pieces of Markup are Markup.
    pieces.push_back(like(self, std::move(piece)));
  }
  return Value::list(std::move(pieces));
}

// Returns true if bounds that slice() has checked are beyond the end of a string or cross each
// other. As in Python not even "" is found between such bounds.
bool bounds_cross(const Value& text, const Value* start, const Value* stop) {
  const int64_t length = text_length(text.text());
  const auto bound = [&](const Value* value, int64_t none) {
    if (value == nullptr || value->is_none()) return none;
    const int64_t at = value->as_int();
    return at < 0 ? std::max<int64_t>(at + length, 0) : at;
  };
  return bound(start, 0) > std::min(bound(stop, length), length);
}

// startswith and endswith take a str or a tuple of them, and bounds.
template <bool at_end>
Value affix_test(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader(at_end ? "endswith" : "startswith", arguments);
  const Value affix = reader.required("affix");
  const Value* start = reader.next("start");
  const Value* stop = reader.next("end");
  reader.finish();
  // Python's bounds are those of a slice.
  const Value part =
      slice(self, start == nullptr ? Value::none() : *start,
            stop == nullptr ? Value::none() : *stop, Value::none(), interpreter.budget());
  const bool crossed = bounds_cross(self, start, stop);
  std::vector<Value> wanted = {affix};
  if (affix.is_list() && affix.list().style == ListStyle::kTuple) wanted = affix.list().items;
  return Value::boolean(std::any_of(wanted.begin(), wanted.end(), [&](const Value& one) {
    XRUN_JINJA_CHECK(one.is_text(), "{} first arg must be str or a tuple of str, not {}",
                     at_end ? "endswith" : "startswith", type_name(one));
    const std::string_view bytes = part.bytes();
    if (crossed) return false;
    return at_end ? bytes.ends_with(one.bytes()) : bytes.starts_with(one.bytes());
  }));
}

Value replace_method(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("replace", arguments);
  const TextPtr from = reader.text("old");
  const TextPtr to = reader.text("new");
  const int64_t most = reader.integer("count", -1);
  reader.finish();
  XRUN_JINJA_CHECK(from != nullptr && to != nullptr, "replace() takes two strs");
  return like(self, replace_text(self.text(), *from, *to, most, interpreter.budget()));
}

template <TextPtr change(const Text&)>
Value change_case(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader("case method", arguments).finish();
  return like(self, change(self.text()));
}

Value is_digit_method(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader("isdigit", arguments).finish();
  const std::string& bytes = self.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = read_utf8(bytes, at);
    if (!is_digit_point(point.value)) return Value::boolean(false);
    at += point.size;
  }
  return Value::boolean(!bytes.empty());
}

// str.format with only {}, each the next argument; {{ and }} are braces.
Value format_method(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Text& format = self.text();
  const std::string& bytes = format.bytes;
  TextBuilder out;
  size_t next = 0;
  // Only braces matter; the text between them keeps its marks.
  for (size_t at = 0; at < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.append(format, at, brace);
    if (brace == bytes.size()) break;
    at = brace + 2;
    if (bytes.compare(brace, 2, "{}") == 0) {
      XRUN_JINJA_CHECK(next < arguments.positional.size(),
                       "Replacement index {} out of range for positional args tuple", next);
      print(out, arguments.positional[next++], interpreter.budget());
    } else {
      // {{ and }}; any other field, such as {0} or {:>3}, is refused rather than printed wrongly.
      XRUN_JINJA_CHECK(at <= bytes.size() && bytes[brace] == bytes[brace + 1],
                       "str.format() supports the field {{}} only in chat templates, not '{}'",
                       shortened(bytes.substr(brace), 20));
      out.append(format, brace, brace + 1);
    }
  }
  return Value::text(out.take());
}

template <ListStyle style>
Value dict_view(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader("view", arguments).finish();
  const Dict& dict = self.dict();
  interpreter.budget().charge(static_cast<int64_t>(dict.members.size() / 4));
  std::vector<Value> items;
  // A view is a copy: templates cannot change the dict while they read it.
  for (const auto& [key, value] : dict.members) {
    if (style == ListStyle::kKeys) items.push_back(key);
    if (style == ListStyle::kValues) items.push_back(value);
    if (style == ListStyle::kItems) {
      items.push_back(Value::list({key, value}, ListStyle::kTuple, dict.origin));
    }
  }
  return Value::list(std::move(items), style, dict.origin);
}

Value dict_get(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("get", arguments);
  const Value key = reader.required("key");
  const Value* default_value = reader.next("default");
  reader.finish();
  XRUN_JINJA_CHECK(is_hashable(key), "unhashable type: '{}'", type_name(key));
  if (const Value* value = self.dict().find(key, interpreter.budget())) return *value;
  return default_value == nullptr ? Value::none() : *default_value;
}

const MethodTable& text_methods() {
  static const MethodTable table = {
      {"capitalize", change_case<capitalize_text>},
      {"endswith", affix_test<true>},
      {"format", format_method},
      {"isdigit", is_digit_method},
      {"lower", change_case<lower_text>},
      {"lstrip", strip<StripSide::kLeft>},
      {"replace", replace_method},
      {"rstrip", strip<StripSide::kRight>},
      {"split", split},
      {"startswith", affix_test<false>},
      {"strip", strip<StripSide::kBoth>},
      {"title", change_case<title_text>},
      {"upper", change_case<upper_text>},
  };
  return table;
}

const MethodTable& dict_methods() {
  static const MethodTable table = {
      {"get", dict_get},
      {"items", dict_view<ListStyle::kItems>},
      {"keys", dict_view<ListStyle::kKeys>},
      {"values", dict_view<ListStyle::kValues>},
  };
  return table;
}

template <size_t size>
bool among(const std::string_view (&names)[size], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Methods of Python that no public chat template calls: defined, and an error when called.
bool is_unsupported(const Value& self, std::string_view name) {
  static constexpr std::string_view kText[] = {
      "casefold",     "center",   "count",     "encode",      "expandtabs", "find",
      "format_map",   "index",    "isalnum",   "isalpha",     "isascii",    "isdecimal",
      "isidentifier", "islower",  "isnumeric", "isprintable", "isspace",    "istitle",
      "isupper",      "join",     "ljust",     "maketrans",   "partition",  "removeprefix",
      "removesuffix", "rfind",    "rindex",    "rjust",       "rpartition", "rsplit",
      "splitlines",   "swapcase", "translate", "zfill"};
  static constexpr std::string_view kDict[] = {"copy", "fromkeys"};
  static constexpr std::string_view kList[] = {"copy", "count", "index"};
  if (self.is_text()) return among(kText, name);
  if (self.is_dict()) return among(kDict, name);
  // Generators and views have none of these methods.
  if (!self.is_list() || self.list().style > ListStyle::kRange) return false;
  // Tuples and ranges have no copy().
  return among(kList, name) && (self.list().style == ListStyle::kList || name != "copy");
}

bool changes_object(const Value& self, std::string_view name) {
  static constexpr std::string_view kList[] = {"append", "clear",   "extend", "insert",
                                               "pop",    "reverse", "remove", "sort"};
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (self.is_dict()) return among(kDict, name);
  return self.is_list() && self.list().style == ListStyle::kList && among(kList, name);
}

}  // namespace

Value bind_method(const Value& self, std::string_view name, bool& found) {
  found = true;
  // Undefined, as in the sandbox: only its use fails, and `x.append is defined` is false.
  if (changes_object(self, name)) {
    return Value::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(self)));
  }
  MethodBody body = nullptr;
  if (self.is_text() || self.is_dict()) {
    const MethodTable& table = self.is_text() ? text_methods() : dict_methods();
    if (const auto it = table.find(name); it != table.end()) body = it->second;
  }
  found = body != nullptr || is_unsupported(self, name);
  if (!found) return {};
  auto method = std::make_shared<BoundMethod>();
  // The method keeps its object alive, so it is one level deeper.
  method->self = self;
  method->name = name;
  method->body = body;
  method->depth = depth_of(self) + 1;
  require_depth(method->depth);
  return Value::function(std::move(method));
}

}  // namespace xrun::jinja
