#pragma once
// An ordered JSON value for configurations, manifests, messages and template arguments. Not for hot
// paths.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace xrun {

// One JSON value. Objects keep the order of their keys; a repeated key keeps its first position and
// takes the last value, as in Python. Integers beyond int64 keep their digits.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;
  enum class Kind { kNull, kBool, kInt, kDouble, kBigInt, kString, kArray, kObject };

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(int64_t{value}) {}
  Json(int64_t value) : value_(value) {}
  Json(uint64_t value);  // a kBigInt beyond int64
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  // An integer beyond int64 from its decimal digits, as JSON spells it ("-" may lead). Throws Error
  // if it is not one, or exceeds the range of a double.
  static Json big_integer(std::string digits);
  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  const char* kind_name() const;  // "null", "boolean", "integer", "number", "string", ...
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_int() const { return kind() == Kind::kInt; }
  bool is_big_int() const { return kind() == Kind::kBigInt; }
  bool is_number() const { return is_int() || kind() == Kind::kDouble || is_big_int(); }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }

  // Each throws Error that names both kinds if the value is of another kind.
  bool as_bool() const;
  int64_t as_int() const;             // an integral double up to 2^53 is accepted
  double as_double() const;           // an integer is accepted; beyond int64 the nearest double
  const std::string& digits() const;  // of a kBigInt, with its sign
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  // The member of an object, or nullptr if it is absent or this is not an object.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);
  // The member of an object. Throws Error that names the key if it is absent.
  const Json& at(std::string_view key) const;
  // Sets or adds a member; a null value becomes an object first.
  Json& set(std::string_view key, Json value);
  void push_back(Json value);  // a null value becomes an array first
  size_t size() const;         // elements or members; 0 for scalars

  bool operator==(const Json& other) const;  // 1 == 1.0; the order of keys counts

 private:
  struct BigInt {
    std::string digits;
    bool operator==(const BigInt&) const = default;
  };
  // In the order of Kind.
  std::variant<std::monostate, bool, int64_t, double, BigInt, std::string, Array, Object> value_;
};

// Parses one document, which begins on line `first_line` after `column` bytes; a byte order mark
// before line 1 is skipped. Throws Error "name:line:column: message" (1-based, in bytes) for
// invalid JSON, nesting deeper than 512 and numbers beyond a double's range.
Json parse_json(std::string_view text, std::string_view name, int64_t first_line = 1,
                uint64_t column = 0);

// Reads and parses a file of at most 1 GiB.
Json read_json(const std::string& path);

// Returns the string under `key`; "" if it is absent or no string, or `object` is not an object.
std::string text_member(const Json* object, std::string_view key);
inline std::string text_member(const Json& object, std::string_view key) {
  return text_member(&object, key);
}

// Returns the UTF-16 code unit of the JSON escape "\uXXXX" at text[at], or -1 if there is none.
int utf16_escape(std::string_view text, size_t at);

struct JsonStyle {
  int indent = -1;     // spaces a level; -1 is one line
  bool ascii = false;  // escape everything beyond ASCII
  bool sort_keys = false;
  std::string_view item_separator = ",";  // as Python's separators
  std::string_view key_separator = ":";
};

// For files that people read.
inline constexpr JsonStyle kIndentedJson{.indent = 2};

// Writes a value. Doubles take the shortest form that reads back equal; NaN and infinities become
// null, as JSON has none.
std::string dump_json(const Json& value, const JsonStyle& style = {});

// Returns the kind of a value for messages: "an integer", "a string", "null".
std::string kind_text(const Json& value);

// Appends `text` as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text, bool ascii = false);

}  // namespace xrun
