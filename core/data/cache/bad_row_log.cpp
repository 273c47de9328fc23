// A manifest commits the file by its length and digest. Bytes beyond that length come from a build
// that was killed, and the next build cuts them off.

#include "core/data/cache/bad_row_log.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/mapped_file.h"
#include "core/data/rows/ledger.h"

namespace xrun {

namespace fs = std::filesystem;

BadRowLog::BadRowLog(fs::path path, const BadRowsEntry& committed)
    : path_(std::move(path)), entry_(committed) {
  // If nothing is committed, an existing file comes from a build that was killed.
  if (committed.bytes == 0) {
    std::error_code code;
    fs::remove(path_, code);
    XRUN_CHECK(!code, "{}: cannot be removed: {}", path_.string(), code.message());
    return;
  }
  XRUN_CHECK(path_exists(path_), "{}: is missing", path_.string());
  // Rows after the last commit are read again and would be listed twice.
  set_file_size(path_, committed.bytes);
  const MappedFile map(path_);
  hasher_.bytes(map.bytes());
  XRUN_CHECK(hasher_.hex() == committed.xxh3, "{}: is damaged", path_.string());
}

void BadRowLog::add(const std::string& file, int64_t line, const std::string& reason,
                    const std::string& detail) {
  Json row = Json::object();
  row.set("file", file);
  row.set("line", line);
  row.set("reason", reason);
  row.set("detail", short_detail(detail));
  const std::string text = dump_json(row) + "\n";
  // Opened at the first bad row: most caches have none, and then no file.
  if (!writer_) writer_ = std::make_unique<FileWriter>(path_, FileWriter::Mode::kAppend);
  writer_->write(text);
  hasher_.bytes(text);
  entry_.bytes += text.size();
  ++entry_.rows;
}

// Synced before the manifest that will name these bytes.
BadRowsEntry BadRowLog::commit() {
  if (!writer_) return entry_;
  writer_->sync();
  writer_->close();
  writer_.reset();
  entry_.xxh3 = hasher_.hex();
  return entry_;
}

}  // namespace xrun
