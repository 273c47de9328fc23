#pragma once
// A row type small enough to see through: {"text": "..."}; texts that begin with "bad" are refused.

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/data/cache/cache_build.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/rows/row_parse.h"

namespace xrun {

class ToyWorker : public RowWorker {
 public:
  void encode(const RawRow& row, const std::string& place, EncodedRow& out) override {
    out = EncodedRow();
    const std::string text = parse_row(row, place, out.repairs).at("text").as_string();
    if (text.starts_with("bad")) throw RowRefusal("bad", "it says so");
    if (text.starts_with("stop")) throw Error(place + ": stop");
    for (const char c : text) {
      out.streams[0].ids.push_back(c);
      out.streams[0].trained.push_back(c == 'a');
    }
  }
};

class ToyRows : public RowType {
 public:
  RowSchema schema() const override { return {RowKind::kText, 256, {}, false}; }
  std::unique_ptr<RowWorker> make_worker() const override { return std::make_unique<ToyWorker>(); }
};

// Calls `each` with the line of every row before it is read.
class WatchedRows : public ToyRows {
 public:
  explicit WatchedRows(std::function<void(int64_t line)> each) : each_(std::move(each)) {}
  std::unique_ptr<RowWorker> make_worker() const override {
    class Worker : public ToyWorker {
     public:
      explicit Worker(const std::function<void(int64_t)>& each) : each_(each) {}
      void encode(const RawRow& row, const std::string& place, EncodedRow& out) override {
        each_(row.at.line);
        ToyWorker::encode(row, place, out);
      }

     private:
      const std::function<void(int64_t)>& each_;
    };
    return std::make_unique<Worker>(each_);
  }

 private:
  std::function<void(int64_t)> each_;
};

// Raises the interrupt at a line, once a segment of the cache in `dir` is committed.
inline WatchedRows interrupted_rows(const std::filesystem::path& dir, int64_t line = 300) {
  return WatchedRows([dir, line](int64_t at) {
    if (at != line) return;
    for (int wait = 0; wait < 2000 && !path_exists(dir / kPartialName); ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    request_interrupt(SIGINT);
  });
}

// Rows of `n` texts of some twenty letters; every seventh is bad, every eleventh line is blank.
inline std::string toy_file(int64_t n) {
  std::string bytes;
  for (int64_t i = 0; i < n; ++i) {
    const std::string text =
        hash_hex(std::to_string(i)).substr(0, 10 + static_cast<size_t>(i % 23));
    bytes += "{\"text\":\"" + std::string(i % 7 == 3 ? "bad" : "") + text + "\"}\n";
    if (i % 11 == 5) bytes += "\n";
  }
  return bytes;
}

inline CacheSource toy_source(const std::string& path, uint64_t segment_bytes = 4096) {
  CacheSource source;
  source.name = "toys";
  source.files = find_data_files(path);
  source.segment_bytes = segment_bytes;
  source.block_bytes = 700;
  source.workers = 3;
  source.key_document = Json::object();
  source.key_document.set("files", data_files_json(source.files));
  source.key_document.set("segment_bytes", segment_bytes);
  return source;
}

inline std::filesystem::path build_toys(const std::filesystem::path& root,
                                        const CacheSource& source) {
  const ToyRows rows;
  return ensure_cache(root, source, rows);
}

inline std::filesystem::path toy_dir(const std::filesystem::path& root, const CacheSource& source) {
  return root / cache_key(source.key_document);
}

// The files of a finished cache, apart from its lock.
inline std::map<std::string, std::string> files_of(const std::filesystem::path& dir) {
  std::map<std::string, std::string> files;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name != kLockName && name != kPartialName) files[name] = read_file(entry.path());
  }
  return files;
}

}  // namespace xrun
