#pragma once
// The manifest of a token cache: what was asked for, and what the folder must hold.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/jsonl.h"
#include "core/data/ledger.h"
#include "core/data/segment.h"

namespace xrun {

constexpr int64_t kCacheVersion = 1;
constexpr const char* kManifestName = "manifest.json";
constexpr const char* kPartialName = "manifest.partial.json";  // of an unfinished build

// Where a build stands in its source: behind the last row of the last committed segment.
struct SourceCursor {
  int32_t file = 0;
  JsonlCursor at;
  std::string xxh3;  // of the file's bytes before it, as they were read
};

struct SegmentEntry {
  std::string file;
  int64_t rows = 0;
  int64_t first_row = 0;
  uint64_t bytes = 0;
  std::vector<int64_t> elements;    // a column
  uint64_t header_xxh3 = 0;         // of the header and the column table
  std::vector<uint64_t> page_xxh3;  // of each 1 MiB of the file, the last one shorter
  SourceCursor cursor;
};

struct CacheManifest {
  std::string key;       // hash of key_document, and the folder's name
  std::string row_type;  // "preference"
  Json key_document;
  std::vector<Column> columns;
  std::vector<SegmentEntry> segments;
  Json summary;  // the row type's own figures
  SourceLedger ledger;

  int64_t rows() const;
};

// The key of a key document: 32 hexadecimal digits.
std::string cache_key(const Json& key_document);

std::string encode_manifest(const CacheManifest& manifest);

// Reads dir/name. Throws Error that names the file if it is missing or damaged in any byte, of a
// newer format, or does not hash to the folder's name.
CacheManifest read_manifest(const std::filesystem::path& dir, const std::string& name);

std::vector<uint64_t> page_checksums(std::string_view bytes);
std::string segment_name(size_t index);  // "segment_000000.bin"

}  // namespace xrun
