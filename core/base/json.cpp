#include "core/base/json.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace xrun {

namespace {

const char* kKindNames[] = {"null",   "boolean", "integer", "number", "integer beyond 64 bits",
                            "string", "array",   "object"};

[[noreturn]] void wrong_kind(const Json& value, const char* wanted) {
  throw Error(fmt::format("is {} ({}), wanted {}", value.kind_name(),
                          dump_json(value).substr(0, 60), wanted));
}

}  // namespace

const char* Json::kind_name() const { return kKindNames[value_.index()]; }

Json::Json(uint64_t value) {
  if (value <= static_cast<uint64_t>(INT64_MAX)) {
    value_ = static_cast<int64_t>(value);
  } else {
    value_ = BigInt{std::to_string(value)};
  }
}

Json Json::big_integer(std::string digits) {
  const size_t sign = digits.starts_with('-') ? 1 : 0;
  const bool spelled = digits.size() > sign && digits[sign] != '0' &&
                       digits.find_first_not_of("0123456789", sign) == std::string::npos;
  int64_t small = 0;
  const char* end = digits.data() + digits.size();
  XRUN_CHECK(spelled && std::from_chars(digits.data(), end, small).ec != std::errc(),
             "\"{}\" is no integer beyond 64 bits", digits.substr(0, 60));
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
  wrong_kind(*this, "an integer beyond 64 bits");
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

bool Json::operator==(const Json& other) const {
  if (is_number() && other.is_number() && kind() != other.kind()) {
    if (kind() != Kind::kDouble && other.kind() != Kind::kDouble) return false;
    return as_double() == other.as_double();
  }
  return value_ == other.value_;
}

}  // namespace xrun
