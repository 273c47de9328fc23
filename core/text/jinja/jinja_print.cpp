// Characters of a string keep their marks through every escape; brackets and separators have the
// origin of their container.

#include "core/text/jinja/jinja_print.h"

#include <algorithm>
#include <cmath>

#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/unicode/unicode.h"

namespace xrun::jinja {

namespace {

// repr escapes what Python calls unprintable: categories C* and Z*, except the plain space.
bool is_printable(uint32_t point) {
  if (point == ' ') return true;
  switch (category(point)) {
    case Category::kCn:
    case Category::kCc:
    case Category::kCf:
    case Category::kCo:
    case Category::kZl:
    case Category::kZp:
    case Category::kZs: return false;
    default: return true;
  }
}

std::string escape_of(uint32_t point) {
  if (point < 0x100) return fmt::format("\\x{:02x}", point);
  return point < 0x10000 ? fmt::format("\\u{:04x}", point) : fmt::format("\\U{:08x}", point);
}

// Appends `text` with each code point replaced by the result of `escape`; "" keeps it.
template <class Escape>
void append_replaced(TextBuilder& out, const Text& text, Escape escape) {
  // [plain, at) needs no escape and is copied at once.
  size_t plain = 0;
  for (size_t at = 0; at < text.bytes.size();) {
    const CodePoint point = read_utf8(text.bytes, at);
    const std::string replacement = escape(point.value);
    if (!replacement.empty()) {
      out.append(text, plain, at);
      // An escape has the origin of the character that it stands for.
      out.append(replacement, mark_at(text, at));
      plain = at + point.size;
    }
    at += point.size;
  }
  out.append(text, plain, text.bytes.size());
}

void repr_text(TextBuilder& out, const Text& text) {
  const bool has_single = text.bytes.find('\'') != std::string::npos;
  const bool has_double = text.bytes.find('"') != std::string::npos;
  // Python's choice: double quotes only where they avoid an escape.
  const char quote = has_single && !has_double ? '"' : '\'';
  const Mark mark = mark_at(text, 0);
  out.append(std::string_view(&quote, 1), mark);
  append_replaced(out, text, [&](uint32_t point) -> std::string {
    if (point == '\n') return "\\n";
    if (point == '\r') return "\\r";
    if (point == '\t') return "\\t";
    if (point == '\\' || point == static_cast<uint32_t>(quote)) {
      return std::string("\\") + static_cast<char>(point);
    }
    return is_printable(point) ? "" : escape_of(point);
  });
  out.append(std::string_view(&quote, 1), mark);
}

// Joins printed items with ", ".
template <class Items, class Print>
void print_items(TextBuilder& out, const Items& items, Mark mark, Print one) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) out.append(", ", mark);
    first = false;
    one(item);
  }
}

class Printer {
 public:
  Printer(TextBuilder& out, Budget& budget) : out_(out), budget_(budget) {}

  void repr(const Value& value, int depth = 0) {
    // Charged by the value: a nested list prints more than the text that made it.
    budget_.charge(1);
    XRUN_JINJA_CHECK(depth <= kMaxValueDepth, "the value nests too deeply to be printed");
    switch (value.kind()) {
      case ValueType::kUndefined: return plain("Undefined");
      case ValueType::kNone: return plain("None");
      case ValueType::kBool: return plain(value.as_int() != 0 ? "True" : "False");
      case ValueType::kInt: return plain(std::to_string(value.as_int()));
      case ValueType::kFloat: return plain(shortest_decimal(value.as_double()));
      case ValueType::kBigInt: return plain(value.bytes());
      case ValueType::kText: return text(value);
      case ValueType::kList: return list(value.list(), depth);
      case ValueType::kDict: return dict(value.dict(), depth);
      case ValueType::kNamespace: return space(value.space(), depth);
      case ValueType::kFunction: return plain(value.function().repr());
      case ValueType::kLoop: {
        const Loop& loop = value.loop();
        return plain(fmt::format("<LoopContext {}/{}>", loop.index + 1, loop.items.size()));
      }
    }
  }

 private:
  void plain(std::string_view bytes, Mark mark = {}) { out_.append(bytes, mark); }

  void text(const Value& value) {
    if (value.markup()) plain("Markup(");
    repr_text(out_, value.text());
    if (value.markup()) plain(")");
  }

  void list(const List& list, int depth) {
    // Indexed by ListStyle; generators and ranges are printed otherwise.
    static constexpr std::string_view kOpen[] = {
        "[", "(", "", "", "dict_keys([", "dict_values([", "dict_items(["};
    static constexpr std::string_view kClose[] = {"]", ")", "", "", "])", "])", "])"};
    const Mark mark{list.origin, 0};
    if (list.style == ListStyle::kGenerator) return plain("<generator object>", mark);
    if (list.style == ListStyle::kRange) return range(static_cast<const RangeList&>(list));
    plain(kOpen[static_cast<int>(list.style)], mark);
    print_items(out_, list.items, mark, [&](const Value& item) { repr(item, depth + 1); });
    // (1,)
    if (list.style == ListStyle::kTuple && list.items.size() == 1) plain(",", mark);
    plain(kClose[static_cast<int>(list.style)], mark);
  }

  void range(const RangeList& list) {
    plain(list.step == 1 ? fmt::format("range({}, {})", list.start, list.stop)
                         : fmt::format("range({}, {}, {})", list.start, list.stop, list.step));
  }

  void dict(const Dict& dict, int depth) {
    const Mark mark{dict.origin, 0};
    plain("{", mark);
    print_items(out_, dict.members, mark, [&](const DictItem& member) {
      repr(member.first, depth + 1);
      plain(": ", mark);
      repr(member.second, depth + 1);
    });
    plain("}", mark);
  }

  void space(const Namespace& space, int depth) {
    plain("<Namespace {");
    print_items(out_, space.attributes, {}, [&](const auto& attribute) {
      repr(Value::text(attribute.first), depth + 1);
      plain(": ");
      repr(attribute.second, depth + 1);
    });
    plain("}>");
  }

  TextBuilder& out_;
  Budget& budget_;
};

class JsonPrinter {
 public:
  JsonPrinter(TextBuilder& out, const JsonPrint& style, Budget& budget)
      : out_(out), style_(style), budget_(budget) {}

  void value(const Value& value, int level, Mark mark) {
    budget_.charge(1);
    switch (value.kind()) {
      case ValueType::kNone: return out_.append("null", mark);
      case ValueType::kBool: return out_.append(value.as_int() != 0 ? "true" : "false", mark);
      case ValueType::kInt: return out_.append(std::to_string(value.as_int()), mark);
      case ValueType::kFloat: return out_.append(number(value.as_double()), mark);
      case ValueType::kBigInt: return out_.append(value.bytes(), mark);
      case ValueType::kText: return text(value.text());
      case ValueType::kDict: return dict(value.dict(), level);
      case ValueType::kList:
        // As in Python, no generator, range or view. Lists and tuples come first in the enum.
        if (value.list().style <= ListStyle::kTuple) return list(value.list(), level);
        break;
      default: break;
    }
    throw Fault(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
  }

 private:
  static std::string number(double value) {
    // Python writes these, although JSON has none.
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return shortest_decimal(value);
  }

  void text(const Text& text) {
    out_.append("\"", mark_at(text, 0));
    append_replaced(out_, text, [&](uint32_t point) -> std::string {
      if (point >= 0x20 && point != '"' && point != '\\' && (point < 0x7F || !style_.ascii))
        return "";
      std::string quoted;
      std::string bytes;
      append_utf8(bytes, point);
      append_json_string(quoted, bytes, style_.ascii);
      // Without the quotes, which were written around the whole text.
      return quoted.substr(1, quoted.size() - 2);
    });
    out_.append("\"", mark_at(text, 0));
  }

  void line(int level, Mark mark) {
    if (!style_.indent) return;
    // An indent of many spaces times a deep level is more work than the values.
    budget_.charge_bytes((style_.indent->size() + 64) * static_cast<size_t>(level));
    out_.append("\n", mark);
    for (int i = 0; i < level; ++i) out_.append(*style_.indent, mark);
  }

  void list(const List& list, int level) {
    const Mark mark{list.origin, 0};
    // Without a line inside, as json.dumps writes it.
    if (list.items.empty()) return out_.append("[]", mark);
    out_.append("[", mark);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator, mark);
      line(level + 1, mark);
      value(list.items[i], level + 1, mark);
    }
    line(level, mark);
    out_.append("]", mark);
  }

  // A key that is not a string is written as its JSON value in quotes.
  void key(const Value& key, Mark mark) {
    if (key.is_text()) return text(key.text());
    XRUN_JINJA_CHECK(key.is_numeric() || key.is_none(),
                     "keys must be str, int, float, bool or None, not {}", type_name(key));
    out_.append("\"", mark);
    value(key, 0, mark);
    out_.append("\"", mark);
  }

  void dict(const Dict& dict, int level) {
    const Mark mark{dict.origin, 0};
    if (dict.members.empty()) return out_.append("{}", mark);
    std::vector<const DictItem*> order;
    // Pointers are sorted, not members: a member may hold a large tree.
    for (const DictItem& member : dict.members) order.push_back(&member);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](const DictItem* a, const DictItem* b) {
        // Fails for keys of several types, as in Python.
        return less(a->first, b->first, budget_);
      });
    }
    out_.append("{", mark);
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator, mark);
      line(level + 1, mark);
      key(order[i]->first, mark);
      out_.append(style_.key_separator, mark);
      value(order[i]->second, level + 1, mark);
    }
    line(level, mark);
    out_.append("}", mark);
  }

  TextBuilder& out_;
  const JsonPrint& style_;
  Budget& budget_;
};

}  // namespace

void print(TextBuilder& out, const Value& value, Budget& budget) {
  if (value.is_undefined()) return;
  if (value.is_text()) {
    budget.charge_bytes(value.bytes().size());
    out.append(value.text());
  } else {
    Printer(out, budget).repr(value);
  }
}

TextPtr to_text(const Value& value, Budget& budget) {
  if (value.is_text()) return value.as_text();
  TextBuilder out;
  print(out, value, budget);
  return out.take();
}

std::string repr(const Value& value, Budget& budget) {
  TextBuilder out;
  Printer(out, budget).repr(value);
  return out.take()->bytes;
}

void print_json(TextBuilder& out, const Value& value, const JsonPrint& style, Budget& budget) {
  const Mark mark = value.is_list() ? Mark{value.list().origin, 0} : Mark{};
  JsonPrinter(out, style, budget).value(value, 0, mark);
}

}  // namespace xrun::jinja
