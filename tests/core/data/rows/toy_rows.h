#pragma once
// A small encoder for tests of caches: {"text": "..."}; texts that begin with "bad" are refused.

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
#include "core/data/rows/row_encoder.h"

namespace xrun {

class ToyEncoder : public RowEncoder {
 public:
  ToyEncoder() : RowEncoder({}) {}
  void encode_value(const Json& row, const std::string& location, EncodedRow& out) const override {
    const std::string text = row.at("text").as_string();
    if (text.starts_with("bad")) throw RowRefusal("bad", "it says so");
    if (text.starts_with("stop")) throw Error(location + ": stop");
    for (const char c : text) {
      out.streams[0].ids.push_back(c);
      out.streams[0].trained.push_back(c == 'a');
    }
  }
};

inline int64_t line_of(const std::string& location) {
  return std::stoll(location.substr(location.rfind(':') + 1));
}

// Calls `each` with the line of every row before it is encoded.
inline RowEncoderMaker watched_rows(std::function<void(int64_t line)> each) {
  class Watched : public ToyEncoder {
   public:
    explicit Watched(std::function<void(int64_t)> each) : each_(std::move(each)) {}
    void encode_value(const Json& row, const std::string& location,
                      EncodedRow& out) const override {
      each_(line_of(location));
      ToyEncoder::encode_value(row, location, out);
    }

   private:
    std::function<void(int64_t)> each_;
  };
  return [each] { return std::make_unique<Watched>(each); };
}

// Raises the interrupt at a line, once a shard of the cache in `dir` is committed.
inline RowEncoderMaker interrupted_rows(const std::filesystem::path& dir, int64_t line = 300) {
  return watched_rows([dir, line](int64_t at) {
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

inline CacheSource toy_source(const std::string& path, uint64_t shard_bytes = 4096) {
  CacheSource source;
  source.name = "toys";
  source.files = find_data_files(path);
  source.shard_bytes = shard_bytes;
  source.schema = {RowKind::kText, 256, {}, false};
  source.make_encoder = [] { return std::make_unique<ToyEncoder>(); };
  source.block_bytes = 700;
  source.workers = 3;
  source.key_document = Json::object();
  source.key_document.set("files", data_files_json(source.files));
  source.key_document.set("segment_bytes", shard_bytes);
  return source;
}

inline std::filesystem::path build_toys(const std::filesystem::path& root, CacheSource source,
                                        const RowEncoderMaker& rows = {}) {
  if (rows) source.make_encoder = rows;
  return ensure_cache(root, source);
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
