// Filters that make texts.

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_arguments.h"
#include "core/text/jinja/jinja_filters.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_points.h"
#include "core/text/jinja/jinja_print.h"
#include "core/text/jinja/jinja_strings.h"
#include "core/text/unicode/letter_case.h"
#include "core/text/unicode/unicode.h"

namespace xrun::jinja {

namespace {

// Most filters take str(value), which keeps what `safe` said.
Value soft_text(Interpreter& interpreter, const Value& input) {
  if (input.is_text()) return input;
  return Value::text(to_text(input, interpreter.budget()));
}

Value trim(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("trim", arguments);
  const TextPtr chars = reader.text("chars");
  reader.finish();
  const Value text = soft_text(interpreter, input);
  if (chars != nullptr) {
    interpreter.budget().charge_bytes(text.bytes().size() * chars->bytes.size());
  }
  return Value::text(strip_text(text.as_text(), Side::kBoth, chars.get()), text.markup());
}

template <TextPtr change(const Text&)>
Value changed(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("filter", arguments).finish();
  const Value text = soft_text(interpreter, input);
  return Value::text(change(text.text()), text.markup());
}

// What begins a word for the `title` filter: the character behind white space, -, (, {, [ and <.
bool is_before_word(uint32_t point) {
  return is_space_point(point) ||
         (point < 0x80 && point != 0 &&
          std::string_view("-({[<").find(static_cast<char>(point)) != std::string_view::npos);
}

// Jinja lowers a word without its first letter, and only with these letters in view.
TextPtr title_words(const Text& text) {
  const std::string_view bytes = text.bytes;
  bool begins = true;
  size_t begin = 0;
  size_t end = 0;  // of the word's other letters
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    if (begins) {
      append_upper(out, point);
      begin = end = at + read_utf8(bytes, at).size;
      while (end < bytes.size() && !is_before_word(read_utf8(bytes, end).value)) {
        end += read_utf8(bytes, end).size;
      }
    } else {
      append_lower_in(out, point, bytes.substr(begin, end - begin), at - begin);
    }
    begins = is_before_word(point);
  });
}

Value title(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("title", arguments).finish();
  return Value::text(title_words(*to_text(input, interpreter.budget())));
}

Value string(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("string", arguments).finish();
  return soft_text(interpreter, input);
}

Value safe(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("safe", arguments).finish();
  return Value::text(to_text(input, interpreter.budget()), true);
}

Value escape(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("escape", arguments).finish();
  if (input.markup()) return input;
  TextBuilder out;
  append_escaped(out, *to_text(input, interpreter.budget()));
  return Value::text(out.take(), true);
}

// Escapes what is marked as safe, too.
Value force_escape(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("forceescape", arguments).finish();
  TextBuilder out;
  append_escaped(out, *to_text(input, interpreter.budget()));
  return Value::text(out.take(), true);
}

Value replace(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("replace", arguments);
  Budget& budget = interpreter.budget();
  const TextPtr from = to_text(reader.required("old"), budget);
  const TextPtr to = to_text(reader.required("new"), budget);
  const Value* count = reader.next("count");
  reader.finish();
  const int64_t most = count != nullptr && count->is_integral() ? count->as_int() : -1;
  return Value::text(replace_text(*to_text(input, budget), *from, *to, most, budget));
}

Value format(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  const Value text = soft_text(interpreter, input);
  XRUN_JINJA_CHECK(arguments.positional.empty() || arguments.named.empty(),
                   "can't handle positional and keyword arguments at the same time");
  if (arguments.named.empty()) {
    return format_percent(text, Value::list(arguments.positional, ListStyle::kTuple),
                          interpreter.budget());
  }
  auto dict = std::make_shared<Dict>();
  for (const auto& [name, value] : arguments.named) {
    dict->set(Value::text(name), value, interpreter.budget());
  }
  return format_percent(text, Value::dict(std::move(dict)), interpreter.budget());
}

// indent(width=4 or a text, first=false, blank=false).
Value indent(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("indent", arguments);
  const Value* width = reader.next("width");
  const bool first = reader.boolean("first", false);
  const bool blank = reader.boolean("blank", false);
  reader.finish();
  XRUN_JINJA_CHECK(input.is_text(), "indent() wants a str, not {}", type_name(input));
  XRUN_JINJA_CHECK(width == nullptr || width->is_text() || width->is_integral(),
                   "indent() wants a number or a str");
  const int64_t spaces = width != nullptr && width->is_integral() ? width->as_int() : 4;
  XRUN_JINJA_CHECK(spaces <= 10'000, "indent() takes at most 10,000 spaces");
  const TextPtr margin =
      width != nullptr && width->is_text()
          ? width->as_text()
          : make_text(std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' '));
  const TextPtr text = input.as_text();
  // A newline is added for the split, so that the last line counts even when it is empty.
  Budget& budget = interpreter.budget();
  const auto lines = split_lines(join_texts(*text, *make_text("\n")), false, budget);
  charge_copies(budget, static_cast<int64_t>(lines.size()), *margin, text->bytes.size());
  TextBuilder out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", mark_at(*text, 0));
    const bool indented = i == 0 ? first : blank || !lines[i]->bytes.empty();
    if (indented) out.append(*margin);
    out.append(*lines[i]);
  }
  return Value::text(out.take(), input.markup());
}

Value tojson(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("tojson", arguments);
  JsonPrint style;
  style.ascii = reader.boolean("ensure_ascii", false);
  const Value* indent = reader.next("indent");
  const Value* separators = reader.next("separators");
  style.sort_keys = reader.boolean("sort_keys", false);
  reader.finish();
  if (indent != nullptr && !indent->is_none()) {
    XRUN_JINJA_CHECK(indent->is_integral() || indent->is_text(), "tojson(): indent is a {}",
                     type_name(*indent));
    const int64_t width =
        indent->is_integral() ? std::clamp<int64_t>(indent->as_int(), 0, 1000) : 0;
    style.indent =
        indent->is_text() ? indent->bytes() : std::string(static_cast<size_t>(width), ' ');
    style.item_separator = std::string(",");
  }
  if (separators != nullptr && !separators->is_none()) {
    const std::vector<Value> parts = iterate(*separators, interpreter.budget());
    XRUN_JINJA_CHECK(parts.size() == 2 && parts[0].is_text() && parts[1].is_text(),
                     "tojson(): separators are two strs");
    style.item_separator = parts[0].bytes();
    style.key_separator = parts[1].bytes();
  }
  TextBuilder out;
  print_json(out, input, style, interpreter.budget());
  interpreter.budget().charge_bytes(out.size());
  return Value::text(out.take());
}

Value center(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("center", arguments);
  const int64_t width = reader.integer("width", 80);
  reader.finish();
  interpreter.budget().charge(std::max<int64_t>(width, 0) / 16);
  return Value::text(
      pad_text(to_text(input, interpreter.budget()), width, *make_text(" "), Side::kBoth));
}

Value truncate(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader reader("truncate", arguments);
  const int64_t length = reader.integer("length", 255);
  const bool kill_words = reader.boolean("killwords", false);
  TextPtr end = reader.text("end");
  const int64_t leeway = reader.integer("leeway", 5);
  reader.finish();
  if (end == nullptr) end = make_text("...");
  // What is no text passes if it is short enough, and cannot be cut.
  const bool short_enough = !input.is_text() && length_of(input) <= length + leeway;
  if (short_enough && length >= text_length(*end)) return input;
  XRUN_JINJA_CHECK(input.is_text(), "truncate() cannot cut a {}", type_name(input));
  const TextPtr text = input.as_text();
  const int64_t kept = length - text_length(*end);
  XRUN_JINJA_CHECK(kept >= 0, "expected length >= {}, got {}", text_length(*end), length);
  if (text_length(*text) <= length + leeway) return Value::text(text);
  TextPtr head = slice_text(text, 0, byte_of_point(*text, kept));
  if (!kill_words) {
    const size_t space = head->bytes.rfind(' ');
    if (space != std::string::npos) head = slice_text(head, 0, space);
  }
  return Value::text(join_texts(*head, *end));
}

Value word_count(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("wordcount", arguments).finish();
  const TextPtr text = to_text(input, interpreter.budget());
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text->bytes.size();) {
    const CodePoint point = read_utf8(text->bytes, at);
    at += point.size;
    const bool word = is_word(point.value);
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::integer(words);
}

}  // namespace

const FilterTable& text_filters() {
  static const FilterTable table = {
      {"trim", trim},
      {"upper", changed<upper_text>},
      {"lower", changed<lower_text>},
      {"capitalize", changed<capitalize_text>},
      {"title", title},
      {"string", string},
      {"safe", safe},
      {"escape", escape},
      {"e", escape},
      {"forceescape", force_escape},
      {"replace", replace},
      {"format", format},
      {"indent", indent},
      {"tojson", tojson},
      {"center", center},
      {"truncate", truncate},
      {"wordcount", word_count},
  };
  return table;
}

}  // namespace xrun::jinja
