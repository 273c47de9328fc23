// Writing: one pass, no intermediate strings; doubles through std::to_chars' shortest form.

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

void append_escape(std::string& out, uint32_t unit) { out += fmt::format("\\u{:04x}", unit); }

class Writer {
 public:
  Writer(std::string& out, const JsonStyle& style) : out_(out), style_(style) {}

  void value(const Json& json, int level) {
    switch (json.kind()) {
      case Json::Kind::kNull: out_ += "null"; break;
      case Json::Kind::kBool: out_ += json.as_bool() ? "true" : "false"; break;
      case Json::Kind::kInt: out_ += std::to_string(json.as_int()); break;
      case Json::Kind::kDouble: number(json.as_double()); break;
      case Json::Kind::kBigInt: out_ += json.digits(); break;
      case Json::Kind::kString: append_json_string(out_, json.as_string(), style_.ascii); break;
      case Json::Kind::kArray: array(json.as_array(), level); break;
      case Json::Kind::kObject: object(json.as_object(), level); break;
    }
  }

 private:
  void number(double value) { out_ += std::isfinite(value) ? shortest_double(value) : "null"; }

  void line(int level) {
    if (style_.indent < 0) return;
    out_.push_back('\n');
    out_.append(static_cast<size_t>(level * style_.indent), ' ');
  }

  void array(const Json::Array& items, int level) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_.push_back('[');
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      line(level + 1);
      value(items[i], level + 1);
    }
    line(level);
    out_.push_back(']');
  }

  void object(const Json::Object& members, int level) {
    if (members.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const Json::Member*> order;
    for (const Json::Member& member : members) order.push_back(&member);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(),
                       [](const auto* a, const auto* b) { return a->first < b->first; });
    }
    out_.push_back('{');
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      line(level + 1);
      append_json_string(out_, order[i]->first, style_.ascii);
      out_ += style_.key_separator;
      value(order[i]->second, level + 1);
    }
    line(level);
    out_.push_back('}');
  }

  std::string& out_;
  const JsonStyle& style_;
};

}  // namespace

std::string shortest_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  // Python's repr: plain digits for 1e-4 <= |x| < 1e16, else an exponent of two digits or more.
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value, format);
  std::string text(buffer, result.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

void append_json_string(std::string& out, std::string_view text, bool ascii) {
  out.push_back('"');
  for (size_t at = 0; at < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
      out.push_back(text[at++]);
      continue;
    }
    const CodePoint point = read_utf8(text, at);
    at += point.size;
    switch (point.value) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (point.value < 0x20) {
          append_escape(out, point.value);
        } else if (!ascii || point.value == 0x7F) {
          append_utf8(out, point.value);
        } else if (point.value < 0x10000) {
          append_escape(out, point.value);
        } else {
          append_escape(out, 0xD800 + ((point.value - 0x10000) >> 10));
          append_escape(out, 0xDC00 + ((point.value - 0x10000) & 0x3FF));
        }
    }
  }
  out.push_back('"');
}

std::string dump_json(const Json& value, const JsonStyle& style) {
  std::string out;
  Writer(out, style).value(value, 0);
  return out;
}

}  // namespace xrun
