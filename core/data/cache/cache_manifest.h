#pragma once
// The manifest of a token cache: the key document, and the files that the folder must hold.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/cache/shard.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/row_splitter.h"

namespace xrun {

constexpr int64_t kCacheVersion = 3;
constexpr const char* kManifestName = "manifest.json";
constexpr const char* kPartialName = "manifest.partial.json";  // of an unfinished build
constexpr const char* kBadRowsName = "bad_rows.jsonl";
constexpr const char* kLockName = "lock";
// The end of a message about a damaged cache.
constexpr const char* kRebuildHint =
    "remove the folder (xrun cache rm with its name), and the next run builds it again";

// The position of a build in its source: after the last row of the last committed shard.
struct SourceCursor {
  int32_t file = 0;
  ContentCursor at;
  std::string xxh3;  // of the file's content before that position, as it was read
};

struct ShardEntry {
  std::string file;
  int64_t rows = 0;
  int64_t first_row = 0;
  uint64_t bytes = 0;
  std::vector<int64_t> elements;  // per column
  uint64_t head_bytes = 0;        // of the head, which holds the checksums of the pages
  uint64_t head_xxh3 = 0;
  SourceCursor cursor;
};

// The committed part of the file that lists every bad row.
struct BadRowsEntry {
  int64_t rows = 0;
  uint64_t bytes = 0;  // 0: there is no file
  std::string xxh3;    // of these bytes
  bool operator==(const BadRowsEntry&) const = default;
};

struct CacheManifest {
  std::string key;       // hash of key_document, and the folder's name
  std::string row_type;  // "preference"
  Json key_document;
  std::vector<Column> columns;
  std::vector<ShardEntry> shards;
  BadRowsEntry bad_rows;
  Json summary;  // RowColumns::summary
  SourceLedger ledger;

  int64_t rows() const;
};

// Returns the key of a key document: 32 hexadecimal digits.
std::string cache_key(const Json& key_document);

std::string encode_manifest(const CacheManifest& manifest);

// Reads dir/name. Throws Error that names the file if it is missing, damaged in any byte, of
// another version, or does not hash to the folder's name.
CacheManifest read_manifest(const std::filesystem::path& dir, const std::string& name);

std::string shard_name(size_t index);  // "segment_000000.bin"

}  // namespace xrun
