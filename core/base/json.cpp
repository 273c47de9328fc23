// JSON values and their text: one pass appends to one string; doubles take the shortest form that
// reads back equal.

#include "core/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

const char* kKindNames[] = {"null",   "boolean", "integer", "number", "integer beyond int64",
                            "string", "array",   "object"};

// Shows the start of the value, since a message about a kind alone is hard to act on.
[[noreturn]] void wrong_kind(const Json& value, const char* wanted) {
  throw Error(fmt::format("is {} ({}), wanted {}", kind_text(value),
                          shortened(dump_json(value), 60), wanted));
}

}  // namespace

const char* Json::kind_name() const { return kKindNames[value_.index()]; }

std::string kind_text(const Json& value) {
  if (value.is_null()) return "null";
  const std::string name = value.kind_name();
  return (name.find_first_of("aeiou") == 0 ? "an " : "a ") + name;
}

// Other programs write counters above int64; they keep their digits.
Json::Json(uint64_t value) {
  if (value <= static_cast<uint64_t>(INT64_MAX)) {
    value_ = static_cast<int64_t>(value);
  } else {
    value_ = BigInt{std::to_string(value)};
  }
}

// Integers beyond int64 keep their digits, since Python's have any size.
Json Json::big_integer(std::string digits) {
  const size_t sign = digits.starts_with('-') ? 1 : 0;
  // No leading zero, only digits, and out of range for from_chars.
  const bool spelled = digits.size() > sign && digits[sign] != '0' &&
                       digits.find_first_not_of("0123456789", sign) == std::string::npos;
  int64_t small = 0;
  const char* end = digits.data() + digits.size();
  XRUN_CHECK(spelled && std::from_chars(digits.data(), end, small).ec != std::errc(),
             "\"{}\" is not an integer beyond int64", digits.substr(0, 60));
  double nearest = 0;
  XRUN_CHECK(std::from_chars(digits.data(), end, nearest).ec == std::errc(),
             "an integer of {} digits is beyond a double's range", digits.size() - sign);
  Json out;
  out.value_ = BigInt{std::move(digits)};
  return out;
}

bool Json::as_bool() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  wrong_kind(*this, "a boolean");
}

// A double without a fraction counts: other writers print 3 as 3.0.
int64_t Json::as_int() const {
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return *value;
  if (const double* value = std::get_if<double>(&value_)) {
    // Beyond 2^53 a double no longer says which integer was meant.
    if (std::nearbyint(*value) == *value && std::abs(*value) <= 0x1p53) {
      return static_cast<int64_t>(*value);
    }
  }
  wrong_kind(*this, "an integer");
}

double Json::as_double() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  if (const BigInt* value = std::get_if<BigInt>(&value_)) {
    double nearest = 0;
    const char* end = value->digits.data() + value->digits.size();
    std::from_chars(value->digits.data(), end, nearest);
    return nearest;
  }
  wrong_kind(*this, "a number");
}

const std::string& Json::digits() const {
  if (const BigInt* value = std::get_if<BigInt>(&value_)) return value->digits;
  wrong_kind(*this, "an integer beyond int64");
}

const std::string& Json::as_string() const {
  if (const std::string* value = std::get_if<std::string>(&value_)) return *value;
  wrong_kind(*this, "a string");
}

const Json::Array& Json::as_array() const {
  if (const Array* value = std::get_if<Array>(&value_)) return *value;
  wrong_kind(*this, "an array");
}

Json::Array& Json::as_array() { return const_cast<Array&>(std::as_const(*this).as_array()); }

const Json::Object& Json::as_object() const {
  if (const Object* value = std::get_if<Object>(&value_)) return *value;
  wrong_kind(*this, "an object");
}

Json::Object& Json::as_object() { return const_cast<Object&>(std::as_const(*this).as_object()); }

const Json* Json::find(std::string_view key) const {
  const Object* object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  // Linear: objects keep the order of their keys and mostly have few.
  for (const Member& member : *object) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json* Json::find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

const Json& Json::at(std::string_view key) const {
  if (const Json* value = find(key)) return *value;
  throw Error(fmt::format("has no key \"{}\"", key));
}

// A key that exists keeps its position.
Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  if (Json* existing = find(key)) {
    *existing = std::move(value);
    return *existing;
  }
  Object& object = as_object();
  object.emplace_back(std::string(key), std::move(value));
  return object.back().second;
}

void Json::push_back(Json value) {
  if (is_null()) value_ = Array{};
  as_array().push_back(std::move(value));
}

size_t Json::size() const {
  if (is_array()) return as_array().size();
  if (is_object()) return as_object().size();
  return 0;
}

std::string text_member(const Json* object, std::string_view key) {
  const Json* value = object == nullptr ? nullptr : object->find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

// A double and an int64 compare by value, so that a reread file equals what was written; a double
// and an integer beyond int64 by the double nearest to it.
bool Json::operator==(const Json& other) const {
  if (is_number() && other.is_number() && kind() != other.kind()) {
    // 1 == 1.0 as in Python; an integer beyond int64 never equals one within it.
    if (kind() != Kind::kDouble && other.kind() != Kind::kDouble) return false;
    if (as_double() != other.as_double()) return false;
    if (kind() == Kind::kBigInt || other.kind() == Kind::kBigInt) return true;
    // 2^53 + 1 rounds to the double 2^53 and is not equal to it. 2^63 is not an int64.
    const int64_t whole = std::get<int64_t>(kind() == Kind::kInt ? value_ : other.value_);
    const double number = std::get<double>(kind() == Kind::kInt ? other.value_ : value_);
    return number < 0x1p63 && static_cast<int64_t>(number) == whole;
  }
  return value_ == other.value_;
}

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
  // JSON has neither NaN nor infinity: null, which every reader knows.
  void number(double value) { out_ += std::isfinite(value) ? shortest_decimal(value) : "null"; }

  // A new line at this depth; nothing in the one-line style.
  void line(int level) {
    if (style_.indent < 0) return;
    out_.push_back('\n');
    out_.append(static_cast<size_t>(level * style_.indent), ' ');
  }

  void array(const Json::Array& items, int level) {
    // Python's dumps writes empty containers on one line even with an indent.
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
      // By bytes, which in UTF-8 is the order of code points and of Python's sort_keys.
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

void append_json_string(std::string& out, std::string_view text, bool ascii) {
  out.push_back('"');
  for (size_t at = 0; at < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[at]);
    // Printable ASCII, nearly all text, needs no decoding.
    if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
      out.push_back(text[at++]);
      continue;
    }
    // Invalid bytes become U+FFFD, so the output is UTF-8 whatever the input is.
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
        } else if (!ascii) {
          append_utf8(out, point.value);
        } else if (point.value < 0x10000) {
          append_escape(out, point.value);
        } else {
          // A surrogate pair, ten bits each.
          append_escape(out, 0xD800 + ((point.value - 0x10000) >> 10));
          append_escape(out, 0xDC00 + ((point.value - 0x10000) & 0x3FF));
        }
    }
  }
  out.push_back('"');
}

// One line by default, so that hashes of a dump do not depend on a style.
std::string dump_json(const Json& value, const JsonStyle& style) {
  std::string out;
  Writer(out, style).value(value, 0);
  return out;
}

}  // namespace xrun
