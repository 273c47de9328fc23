#pragma once
// Typed access to the metadata of a GGUF file.

#include <cstdint>
#include <string>

#include "core/base/json.h"
#include "core/model/weights/gguf.h"

namespace xrun {

// The keys of a file that begin with `prefix` ("llama."); the file outlives it. Every function
// takes the rest of the key. Throws Error that names file and key if the value has another type, or
// is absent where no `otherwise` is given.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string prefix);

  const std::string& where() const { return where_; }  // the file's path, for messages
  const Json* find(const std::string& key) const;      // null if absent
  std::string string(const std::string& key) const;
  // An array whose elements are of one kind.
  const Json::Array& array(const std::string& key, Json::Kind kind) const;
  bool boolean(const std::string& key, bool otherwise) const;
  // An id below `vocab`, or -1 where the key is absent.
  int64_t id(const std::string& key, int64_t vocab) const;
  int64_t size(const std::string& key) const;  // from 1 to INT32_MAX
  int64_t size(const std::string& key, int64_t otherwise) const;
  // A positive float32 as the shortest decimal that reads back as the same float32: 1e-05, not
  // 9.99...e-06.
  double number(const std::string& key, double otherwise) const;

 private:
  const GgufFile& file_;
  std::string prefix_, where_;
};

}  // namespace xrun
