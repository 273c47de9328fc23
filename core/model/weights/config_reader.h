#pragma once
// Typed access to the keys of a config.json.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// Every message names the file and the key. A null counts as absent.
class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string name) : json_(json), name_(std::move(name)) {}

  bool has(const char* key) const;
  int64_t integer(const char* key) const;  // must be there, and at least 1
  int64_t integer(const char* key, int64_t otherwise) const;
  double number(const char* key, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::vector<double> numbers(const char* key) const;  // a list; empty if it is absent
  // Throws Error with the file's name in front.
  [[noreturn]] void fail(const std::string& message) const;
  // Returns a reader of the member, or of an empty object if it is absent.
  ConfigReader object(const char* key) const;
  const Json& json() const { return json_; }
  const std::string& name() const { return name_; }

 private:
  const Json* find(const char* key) const;

  const Json& json_;
  std::string name_;
};

}  // namespace xrun
