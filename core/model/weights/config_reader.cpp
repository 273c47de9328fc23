// Each getter checks the type of the value and names the key in its error.

#include "core/model/weights/config_reader.h"

#include "core/base/error.h"

namespace xrun {

const Json* ConfigReader::find(const char* key) const {
  const Json* value = json_.find(key);
  // null is the same as absent.
  return value != nullptr && value->is_null() ? nullptr : value;
}

bool ConfigReader::has(const char* key) const { return find(key) != nullptr; }

void ConfigReader::fail(const std::string& message) const {
  throw Error(fmt::format("{}: {}", name_, message));
}

int64_t ConfigReader::integer(const char* key) const {
  if (!has(key)) fail(fmt::format("has no {}", key));
  // The key is there, so the default is not used.
  return integer(key, 0);
}

// For sizes and counts, none of which may be 0 or negative.
int64_t ConfigReader::integer(const char* key, int64_t otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_int() || value->as_int() < 1) {
    fail(fmt::format("{} is {}, wanted a positive integer", key, dump_json(*value)));
  }
  return value->as_int();
}

double ConfigReader::number(const char* key, double otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) fail(fmt::format("{} is {}, wanted a number", key, dump_json(*value)));
  return value->as_double();
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) {
    fail(fmt::format("{} is {}, wanted true or false", key, dump_json(*value)));
  }
  return value->as_bool();
}

std::string ConfigReader::text(const char* key, const std::string& otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) fail(fmt::format("{} is {}, wanted a string", key, dump_json(*value)));
  return value->as_string();
}

// An absent list is an empty one.
std::vector<double> ConfigReader::numbers(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  std::vector<double> list;
  if (!value->is_array()) fail(fmt::format("{} must be a list of numbers", key));
  for (const Json& number : value->as_array()) {
    if (!number.is_number()) {
      fail(fmt::format("{} holds {}, wanted a list of numbers", key, dump_json(number)));
    }
    list.push_back(number.as_double());
  }
  return list;
}

// An absent object reads as an empty one, so that its keys get their defaults.
ConfigReader ConfigReader::object(const char* key) const {
  static const Json kEmpty = Json::object();
  const Json* value = find(key);
  if (value == nullptr) return ConfigReader(kEmpty, name_);
  if (!value->is_object()) fail(fmt::format("{} is {}, wanted an object", key, dump_json(*value)));
  return ConfigReader(*value, fmt::format("{}: {}", name_, key));
}

}  // namespace xrun
