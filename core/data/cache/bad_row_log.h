#pragma once
// The file that lists every bad row of a build, one JSON object per line:
// {"file":"pairs.jsonl","line":17,"reason":"no_prompt","detail":"..."}

#include <filesystem>
#include <memory>
#include <string>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/data/cache/cache_manifest.h"

namespace xrun {

// Appends to the file. Rows that were not committed are cut off by the next log of the file. Not
// thread-safe.
class BadRowLog {
 public:
  // Continues after the committed part. Throws Error if the file does not begin with it.
  BadRowLog(std::filesystem::path path, const BadRowsEntry& committed);

  void add(const std::string& file, int64_t line, const std::string& reason,
           const std::string& detail);
  // Makes the added rows durable and returns the entry of the whole file. Without new rows it
  // writes nothing. Throws Error.
  BadRowsEntry commit();

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileWriter> writer_;  // null until there is a row to write
  Hasher hasher_;
  BadRowsEntry entry_;
};

}  // namespace xrun
