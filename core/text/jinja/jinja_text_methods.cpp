// The methods of str that chat templates meet; positions count code points.

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_arguments.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_methods.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_points.h"
#include "core/text/jinja/jinja_print.h"
#include "core/text/jinja/jinja_strings.h"
#include "core/text/unicode/letter_case.h"

namespace xrun::jinja {

namespace {

Value like(const Value& self, TextPtr text) { return Value::text(std::move(text), self.markup()); }

Value list_of(const Value& self, const std::vector<TextPtr>& parts,
              ListStyle style = ListStyle::kList) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const TextPtr& part : parts) items.push_back(like(self, part));
  return Value::list(std::move(items), style);
}

template <Side side>
Value strip(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("strip", arguments);
  const TextPtr chars = reader.text("chars");
  reader.finish();
  if (chars != nullptr) {
    interpreter.budget().charge_bytes(self.bytes().size() * chars->bytes.size());
  }
  return like(self, strip_text(self.as_text(), side, chars.get()));
}

template <bool from_right>
Value split(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("split", arguments);
  const TextPtr separator = reader.text("sep");
  const int64_t most = reader.integer("maxsplit", -1);
  reader.finish();
  const size_t work = separator == nullptr ? 1 : separator->bytes.size();
  if (from_right) interpreter.budget().charge_bytes(self.bytes().size() * (work / 64 + 1));
  return list_of(
      self, split_text(self.as_text(), separator.get(), most, interpreter.budget(), from_right));
}

Value split_lines_method(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("splitlines", arguments);
  const bool keep_ends = reader.boolean("keepends", false);
  reader.finish();
  return list_of(self, split_lines(self.as_text(), keep_ends, interpreter.budget()));
}

template <bool from_right>
Value partition(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("partition", arguments);
  const TextPtr separator = reader.text("sep");
  reader.finish();
  XRUN_JINJA_CHECK(separator != nullptr, "partition() wants a str");
  auto parts = split_text(self.as_text(), separator.get(), 1, interpreter.budget(), from_right);
  const TextPtr empty = make_text("");
  if (parts.size() == 2) {
    parts.insert(parts.begin() + 1, separator);
  } else if (from_right) {
    parts.insert(parts.begin(), 2, empty);
  } else {
    parts.insert(parts.end(), 2, empty);
  }
  return list_of(self, parts, ListStyle::kTuple);
}

// startswith and endswith take a str or a tuple of them, and bounds.
template <bool at_end>
Value affix_test(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader(at_end ? "endswith" : "startswith", arguments);
  const Value affix = reader.required("affix");
  const Value* start = reader.next("start");
  const Value* stop = reader.next("end");
  reader.finish();
  const Value part =
      slice(self, start == nullptr ? Value::none() : *start,
            stop == nullptr ? Value::none() : *stop, Value::none(), interpreter.budget());
  std::vector<Value> wanted = {affix};
  if (affix.is_list() && affix.list().style == ListStyle::kTuple) wanted = affix.list().items;
  return Value::boolean(std::any_of(wanted.begin(), wanted.end(), [&](const Value& one) {
    XRUN_JINJA_CHECK(one.is_text(), "{} first arg must be str or a tuple of str, not {}",
                     at_end ? "endswith" : "startswith", type_name(one));
    const std::string_view bytes = part.bytes();
    return at_end ? bytes.ends_with(one.bytes()) : bytes.starts_with(one.bytes());
  }));
}

Value replace(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("replace", arguments);
  const TextPtr from = reader.text("old");
  const TextPtr to = reader.text("new");
  const int64_t most = reader.integer("count", -1);
  reader.finish();
  XRUN_JINJA_CHECK(from != nullptr && to != nullptr, "replace() wants two strs");
  return like(self, replace_text(self.text(), *from, *to, most, interpreter.budget()));
}

// find, rfind, index, rindex, count look inside [start, end) and count from the whole text's begin.
enum class Search { kFind, kFindLast, kCount };

template <Search search, bool must>
Value find(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("find", arguments);
  const TextPtr part = reader.text("sub");
  const int64_t length = text_length(self.text());
  int64_t start = reader.integer("start", 0);
  int64_t stop = reader.integer("end", length);
  reader.finish();
  XRUN_JINJA_CHECK(part != nullptr, "find() wants a str");
  if (start < 0) start = std::max<int64_t>(start + length, 0);
  if (stop < 0) stop = std::max<int64_t>(stop + length, 0);
  stop = std::min(stop, length);
  int64_t found = -1;
  if (start <= stop) {
    const size_t begin = byte_of_point(self.text(), start);
    const size_t end = byte_of_point(self.text(), stop);
    const TextPtr window = slice_text(self.as_text(), begin, end);
    if (search == Search::kCount) return Value::integer(count_of(*window, part->bytes));
    interpreter.budget().charge_bytes(window->bytes.size() * (part->bytes.size() / 64 + 1));
    const size_t at = search == Search::kFind ? find_bytes(window->bytes, part->bytes)
                                              : window->bytes.rfind(part->bytes);
    if (at != std::string::npos) found = start + point_of_byte(*window, at);
  }
  if (search == Search::kCount) return Value::integer(0);
  XRUN_JINJA_CHECK(!must || found >= 0, "substring not found");
  return Value::integer(found);
}

template <TextPtr change(const Text&)>
Value changed(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader("case method", arguments).finish();
  return like(self, change(self.text()));
}

TextPtr swap_case(const Text& text) {
  return map_text(text, [&](std::string& out, uint32_t point, size_t at) {
    if (is_upper_point(point)) {
      append_lower_in(out, point, text.bytes, at);
    } else if (is_lower_point(point)) {
      append_upper(out, point);
    } else {
      append_utf8(out, point);
    }
  });
}

Value join(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("join", arguments);
  const Value items = reader.required("iterable");
  reader.finish();
  std::vector<TextPtr> parts;
  for (const Value& item : iterate(items, interpreter.budget())) {
    XRUN_JINJA_CHECK(item.is_text(), "sequence item {}: expected str instance, {} found",
                     parts.size(), type_name(item));
    parts.push_back(item.as_text());
  }
  return like(self, join_list(self.text(), parts, interpreter.budget()));
}

template <Side side>
Value pad(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("pad", arguments);
  const int64_t width = reader.integer("width", 0);
  const TextPtr fill = reader.text("fillchar");
  reader.finish();
  interpreter.budget().charge(std::max<int64_t>(width, 0) / 16);
  const TextPtr blank = make_text(" ");
  return like(self, pad_text(self.as_text(), width, fill == nullptr ? *blank : *fill, side));
}

Value zfill(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  ArgumentReader reader("zfill", arguments);
  const int64_t width = reader.integer("width", 0);
  reader.finish();
  interpreter.budget().charge(std::max<int64_t>(width, 0) / 16);
  const TextPtr text = self.as_text();
  const bool sign = text->bytes.starts_with('-') || text->bytes.starts_with('+');
  const TextPtr digits = pad_text(slice_text(text, sign ? 1 : 0, text->bytes.size()),
                                  width - (sign ? 1 : 0), *make_text("0"), Side::kLeft);
  return like(self, join_texts(*slice_text(text, 0, sign ? 1 : 0), *digits));
}

template <bool suffix>
Value remove_affix(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader reader("removeprefix", arguments);
  const TextPtr affix = reader.text("affix");
  reader.finish();
  XRUN_JINJA_CHECK(affix != nullptr, "removeprefix() and removesuffix() want a str");
  const TextPtr text = self.as_text();
  const size_t size = text->bytes.size();
  const size_t cut = affix->bytes.size();
  if (suffix && cut > 0 && text->bytes.ends_with(affix->bytes)) {
    return like(self, slice_text(text, 0, size - cut));
  }
  if (!suffix && text->bytes.starts_with(affix->bytes)) {
    return like(self, slice_text(text, cut, size));
  }
  return self;
}

}  // namespace

const MethodTable& text_methods() {
  static const MethodTable table = {
      {"strip", strip<Side::kBoth>},
      {"lstrip", strip<Side::kLeft>},
      {"rstrip", strip<Side::kRight>},
      {"split", split<false>},
      {"rsplit", split<true>},
      {"splitlines", split_lines_method},
      {"partition", partition<false>},
      {"rpartition", partition<true>},
      {"startswith", affix_test<false>},
      {"endswith", affix_test<true>},
      {"replace", replace},
      {"find", find<Search::kFind, false>},
      {"rfind", find<Search::kFindLast, false>},
      {"index", find<Search::kFind, true>},
      {"rindex", find<Search::kFindLast, true>},
      {"count", find<Search::kCount, false>},
      {"upper", changed<upper_text>},
      {"lower", changed<lower_text>},
      {"casefold", changed<fold_text>},
      {"capitalize", changed<capitalize_text>},
      {"title", changed<title_text>},
      {"swapcase", changed<swap_case>},
      {"join", join},
      {"center", pad<Side::kBoth>},
      {"ljust", pad<Side::kRight>},
      {"rjust", pad<Side::kLeft>},
      {"zfill", zfill},
      {"removeprefix", remove_affix<false>},
      {"removesuffix", remove_affix<true>},
      {"format", format_braces},
      // Known to Python, without use in a chat template.
      {"encode", nullptr},
      {"expandtabs", nullptr},
      {"format_map", nullptr},
      {"maketrans", nullptr},
      {"translate", nullptr},
  };
  return table;
}

}  // namespace xrun::jinja
