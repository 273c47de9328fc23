#pragma once
// The file that lists every bad row of a build, one JSON object a line:
// {"file":"pairs.jsonl","line":17,"reason":"no_prompt","detail":"..."}

#include <filesystem>
#include <memory>
#include <string>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/data/cache/cache_manifest.h"

namespace xrun {

// Appends to the file; what is not committed is cut off by the next log of the file. Not
// thread-safe.
class BadRowLog {
 public:
  // Goes on behind what is committed, nothing at first. Throws Error if the file does not begin
  // with that.
  BadRowLog(std::filesystem::path path, const BadRowsEntry& committed);

  void add(const std::string& file, int64_t line, const std::string& reason,
           const std::string& detail);
  // Makes what was added durable and returns it with all before. Without new rows nothing is
  // written. Throws Error.
  BadRowsEntry commit();

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileWriter> writer_;  // once there is a row to write
  Hasher hasher_;
  BadRowsEntry entry_;
};

}  // namespace xrun
