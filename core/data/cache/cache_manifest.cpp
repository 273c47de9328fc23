// The file is one JSON object whose last member is the checksum of all bytes before it:
//   BODY ,"xxh3":"<32 hex digits of XXH3-128 of BODY>"}\n
// so that a flipped byte anywhere is found before anything else is trusted.

#include "core/data/cache/cache_manifest.h"

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"

namespace xrun {

namespace {

constexpr std::string_view kTailBegin = ",\"xxh3\":\"";
constexpr std::string_view kTailEnd = "\"}\n";
constexpr size_t kTailBytes = kTailBegin.size() + 32 + kTailEnd.size();
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 30;

std::string hex64(uint64_t value) { return fmt::format("{:016x}", value); }

// Requires exactly 16 digits: a shorter number would pass as another checksum.
uint64_t read_hex64(const Json& value) {
  const std::string& text = value.as_string();
  uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  XRUN_CHECK(text.size() == 16 && code == std::errc() && end == text.data() + text.size(),
             "\"{}\" is not a checksum", text);
  return number;
}

Json shard_json(const ShardEntry& shard) {
  Json entry = Json::object();
  entry.set("file", shard.file);
  entry.set("rows", shard.rows);
  entry.set("first_row", shard.first_row);
  entry.set("bytes", shard.bytes);
  Json elements = Json::array();
  for (int64_t count : shard.elements) elements.push_back(count);
  entry.set("elements", std::move(elements));
  entry.set("head_bytes", shard.head_bytes);
  // Hexadecimal, since a JSON number may lose bits beyond 2^53.
  entry.set("head_xxh3", hex64(shard.head_xxh3));
  Json cursor = Json::object();
  cursor.set("file", shard.cursor.file);
  cursor.set("offset", shard.cursor.at.offset);
  cursor.set("lines", shard.cursor.at.lines);
  cursor.set("rows", shard.cursor.at.rows);
  cursor.set("column", shard.cursor.at.column);
  cursor.set("xxh3", shard.cursor.xxh3);
  entry.set("cursor", std::move(cursor));
  return entry;
}

ShardEntry read_shard(const Json& entry, int64_t first_row, size_t index) {
  ShardEntry shard;
  shard.file = entry.at("file").as_string();
  // Names are not free: a hostile manifest must not open a file outside its folder.
  XRUN_CHECK(shard.file == shard_name(index), "shard {} is in file \"{}\"", index, shard.file);
  shard.rows = entry.at("rows").as_int();
  shard.first_row = entry.at("first_row").as_int();
  // Shards follow one another without gaps.
  XRUN_CHECK(shard.rows > 0 && shard.first_row == first_row,
             "shard {} has {} rows from row {}, wanted row {}", index, shard.rows, shard.first_row,
             first_row);
  shard.bytes = static_cast<uint64_t>(entry.at("bytes").as_int());
  for (const Json& count : entry.at("elements").as_array()) {
    shard.elements.push_back(count.as_int());
  }
  shard.head_bytes = static_cast<uint64_t>(entry.at("head_bytes").as_int());
  shard.head_xxh3 = read_hex64(entry.at("head_xxh3"));
  const Json& cursor = entry.at("cursor");
  shard.cursor.file = static_cast<int32_t>(cursor.at("file").as_int());
  shard.cursor.at.offset = static_cast<uint64_t>(cursor.at("offset").as_int());
  shard.cursor.at.lines = cursor.at("lines").as_int();
  shard.cursor.at.rows = cursor.at("rows").as_int();
  shard.cursor.at.column = static_cast<uint64_t>(cursor.at("column").as_int());
  shard.cursor.xxh3 = cursor.at("xxh3").as_string();
  return shard;
}

Json columns_json(const std::vector<Column>& columns) {
  Json list = Json::array();
  for (const Column& column : columns) {
    Json entry = Json::object();
    entry.set("name", column.name);
    entry.set("type", column_type_name(column.type));
    if (column.offsets >= 0) {
      // Named, so that a reader need not count columns.
      entry.set("offsets", columns[static_cast<size_t>(column.offsets)].name);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<Column> read_columns(const Json& list) {
  std::vector<Column> columns;
  const auto index_of = [&](const std::string& name) {
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const Column& column) { return column.name == name; });
    XRUN_CHECK(found != columns.end() && found->type == ColumnType::kI64,
               "\"{}\" is not an offsets column before this one", name);
    return static_cast<int32_t>(found - columns.begin());
  };
  // An offsets column must precede the columns that name it.
  for (const Json& entry : list.as_array()) {
    Column column{entry.at("name").as_string(), column_type_of(entry.at("type").as_string()), -1};
    if (const Json* offsets = entry.find("offsets"))
      column.offsets = index_of(offsets->as_string());
    columns.push_back(std::move(column));
  }
  return columns;
}

// Checks the numbers against each other even though the checksum matched: a faulty writer computes
// a right one too.
CacheManifest decode_manifest(const Json& value) {
  XRUN_CHECK(value.at("format").as_string() == "xrun token cache",
             "is not the manifest of a cache");
  const int64_t version = value.at("version").as_int();
  XRUN_CHECK(version == kCacheVersion, "is of format {}, written by {} xrun; this one reads {}",
             version, version > kCacheVersion ? "a newer" : "an older", kCacheVersion);
  CacheManifest manifest;
  manifest.key = value.at("key").as_string();
  manifest.row_type = value.at("row_type").as_string();
  manifest.key_document = value.at("key_document");
  manifest.columns = read_columns(value.at("columns"));
  int64_t rows = 0;
  for (const Json& entry : value.at("segments").as_array()) {
    manifest.shards.push_back(read_shard(entry, rows, manifest.shards.size()));
    // Shards are contiguous: row ids are sums over the shards before.
    rows += manifest.shards.back().rows;
    XRUN_CHECK(manifest.shards.back().elements.size() == manifest.columns.size(),
               "shard {} lists {} columns, wanted {}", manifest.shards.size() - 1,
               manifest.shards.back().elements.size(), manifest.columns.size());
  }
  XRUN_CHECK(value.at("rows").as_int() == rows, "its shards have {} rows, the manifest says {}",
             rows, value.at("rows").as_int());
  const Json& bad_rows = value.at("bad_rows");
  manifest.bad_rows = {bad_rows.at("rows").as_int(),
                       static_cast<uint64_t>(bad_rows.at("bytes").as_int()),
                       bad_rows.at("xxh3").as_string()};
  manifest.summary = value.at("summary");
  manifest.ledger = SourceLedger::from_json(value.at("ledger"));
  return manifest;
}

}  // namespace

int64_t CacheManifest::rows() const {
  return shards.empty() ? 0 : shards.back().first_row + shards.back().rows;
}

std::string cache_key(const Json& key_document) { return hash_hex(dump_json(key_document)); }

std::string encode_manifest(const CacheManifest& manifest) {
  Json value = Json::object();
  value.set("format", "xrun token cache");
  value.set("version", kCacheVersion);
  value.set("key", manifest.key);
  value.set("row_type", manifest.row_type);
  value.set("key_document", manifest.key_document);
  value.set("rows", manifest.rows());
  value.set("columns", columns_json(manifest.columns));
  Json shards = Json::array();
  for (const ShardEntry& shard : manifest.shards) shards.push_back(shard_json(shard));
  value.set("segments", std::move(shards));
  Json bad_rows = Json::object();
  bad_rows.set("rows", manifest.bad_rows.rows);
  bad_rows.set("bytes", manifest.bad_rows.bytes);
  bad_rows.set("xxh3", manifest.bad_rows.xxh3);
  value.set("bad_rows", std::move(bad_rows));
  value.set("summary", manifest.summary);
  value.set("ledger", manifest.ledger.to_json());
  std::string body = dump_json(value);
  // Hashed without the brace, so that the checksum can be the last member of the same object.
  body.pop_back();  // the closing brace is part of the tail
  return fmt::format("{}{}{}{}", body, kTailBegin, hash_hex(body), kTailEnd);
}

CacheManifest read_manifest(const std::filesystem::path& dir, const std::string& name) {
  const std::string path = (dir / name).string();
  const std::string text = read_file(path, kMaxManifestBytes);
  const size_t body = text.size() < kTailBytes ? 0 : text.size() - kTailBytes;
  const std::string_view view(text);
  // The checksum is compared before the parser sees a byte.
  const bool whole = body > 0 && view.substr(body, kTailBegin.size()) == kTailBegin &&
                     view.ends_with(kTailEnd) &&
                     view.substr(body + kTailBegin.size(), 32) == hash_hex(view.substr(0, body));
  XRUN_CHECK(whole, "{}: is damaged: its checksum does not match; {}", path, kRebuildHint);
  CacheManifest manifest;
  try {
    manifest = decode_manifest(parse_json(text, path));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}; {}", path, error.what(), kRebuildHint));
  }
  std::error_code code;
  const std::string folder = std::filesystem::weakly_canonical(dir, code).filename().string();
  XRUN_CHECK(!code, "{}: cannot be examined: {}", dir.string(), code.message());
  XRUN_CHECK(manifest.key == cache_key(manifest.key_document),
             "{}: its key document hashes to {}, it says {}; {}", path,
             cache_key(manifest.key_document), manifest.key, kRebuildHint);
  // A folder copied to another name would be found under the wrong key.
  XRUN_CHECK(manifest.key == folder,
             "{}: is the manifest of cache {}, but its folder is named {}; {}", path, manifest.key,
             folder, kRebuildHint);
  return manifest;
}

std::string shard_name(size_t index) { return fmt::format("segment_{:06}.bin", index); }

}  // namespace xrun
