// Every error names the file and the full key: prefix + key.

#include "core/model/weights/gguf_keys.h"

#include <utility>

#include "core/base/error.h"

namespace xrun {

namespace {

// An array may be the whole vocabulary.
std::string brief_value(const Json& value) {
  return value.is_array() ? "an array" : dump_json(value);
}

}  // namespace

GgufKeys::GgufKeys(const GgufFile& file, std::string prefix)
    : file_(file), prefix_(std::move(prefix)), where_(file.path().string()) {}

const Json* GgufKeys::find(const std::string& key) const { return file_.find(prefix_ + key); }

std::string GgufKeys::string(const std::string& key) const {
  const Json* value = find(key);
  XRUN_CHECK(value != nullptr && value->is_string(), "{}: {}{} is {}, wanted a string", where_,
             prefix_, key, value == nullptr ? "missing" : value->kind_name());
  return value->as_string();
}

const Json::Array& GgufKeys::array(const std::string& key, Json::Kind kind) const {
  const Json* value = find(key);
  XRUN_CHECK(value != nullptr && value->is_array(), "{}: {}{} is {}, wanted an array", where_,
             prefix_, key, value == nullptr ? "missing" : value->kind_name());
  for (const Json& element : value->as_array()) {
    XRUN_CHECK(element.kind() == kind, "{}: {}{} holds a value that is {}", where_, prefix_, key,
               element.kind_name());
  }
  return value->as_array();
}

bool GgufKeys::boolean(const std::string& key, bool otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  XRUN_CHECK(value->is_bool(), "{}: {}{} is {}, wanted a boolean", where_, prefix_, key,
             value->kind_name());
  return value->as_bool();
}

int64_t GgufKeys::id(const std::string& key, int64_t vocab) const {
  const Json* value = find(key);
  if (value == nullptr) return -1;
  XRUN_CHECK(value->is_int() && value->as_int() >= 0 && value->as_int() < vocab,
             "{}: {}{} is {}, wanted an id of the {} tokens", where_, prefix_, key,
             brief_value(*value), vocab);
  return value->as_int();
}

int64_t GgufKeys::size(const std::string& key) const {
  const Json* value = find(key);
  XRUN_CHECK(
      value != nullptr && value->is_int() && value->as_int() > 0 && value->as_int() <= INT32_MAX,
      "{}: {}{} is {}, wanted a positive integer", where_, prefix_, key,
      value == nullptr ? "missing" : brief_value(*value));
  return value->as_int();
}

int64_t GgufKeys::size(const std::string& key, int64_t otherwise) const {
  return find(key) == nullptr ? otherwise : size(key);
}

double GgufKeys::number(const std::string& key, double otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  // Bounds a damaged number; every real one is far below.
  XRUN_CHECK(value->is_number() && value->as_double() > 0 && value->as_double() < 1e30,
             "{}: {}{} is {}, wanted a positive number", where_, prefix_, key, brief_value(*value));
  // The file has a float32: its shortest spelling, 1e-05, not 9.999999747378752e-06.
  return std::stod(fmt::format("{}", static_cast<float>(value->as_double())));
}

}  // namespace xrun
