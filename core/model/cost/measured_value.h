#pragma once
// Measurements of this machine, remembered between processes under $XRUN_CACHE/measured.

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/json.h"

namespace xrun {

// One remembered value: $XRUN_CACHE/measured/KIND/HASH.json holds {"key", NAME: value}. The key has
// everything that the value depends on.
class MeasuredValue {
 public:
  // The key has the processor, instruction sets, thread count and torch version, and `settings`.
  MeasuredValue(const std::string& kind, std::string name, const Json& settings);

  // Returns the remembered value; nullopt if there is no file. Throws Error for a damaged file and
  // for one with another key.
  std::optional<Json> read() const;
  // Replaces the file. A file that cannot be written is ignored: the next process measures again.
  void write(const Json& value) const;

  const std::filesystem::path& file() const { return file_; }

 private:
  std::string name_;
  Json key_;
  std::filesystem::path file_;
};

}  // namespace xrun
