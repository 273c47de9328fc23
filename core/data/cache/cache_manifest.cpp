// The file is one JSON object whose last member is the checksum of all bytes before it:
//   BODY ,"xxh3":"<32 hex digits of XXH3-128 of BODY>"}\n
// so that a flipped byte anywhere is found before anything else is believed.

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
constexpr const char* kWayOut = "remove the folder and the next run builds it anew";

std::string hex64(uint64_t value) { return fmt::format("{:016x}", value); }

uint64_t read_hex64(const Json& value) {
  const std::string& text = value.as_string();
  uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  XRUN_CHECK(text.size() == 16 && code == std::errc() && end == text.data() + text.size(),
             "\"{}\" is no checksum", text);
  return number;
}

Json segment_json(const SegmentEntry& segment) {
  Json entry = Json::object();
  entry.set("file", segment.file);
  entry.set("rows", segment.rows);
  entry.set("first_row", segment.first_row);
  entry.set("bytes", segment.bytes);
  Json elements = Json::array();
  for (int64_t count : segment.elements) elements.push_back(count);
  entry.set("elements", std::move(elements));
  entry.set("head_bytes", segment.head_bytes);
  entry.set("head_xxh3", hex64(segment.head_xxh3));
  Json cursor = Json::object();
  cursor.set("file", segment.cursor.file);
  cursor.set("offset", segment.cursor.at.offset);
  cursor.set("lines", segment.cursor.at.lines);
  cursor.set("rows", segment.cursor.at.rows);
  cursor.set("column", segment.cursor.at.column);
  cursor.set("xxh3", segment.cursor.xxh3);
  entry.set("cursor", std::move(cursor));
  return entry;
}

SegmentEntry read_segment(const Json& entry, int64_t first_row, size_t index) {
  SegmentEntry segment;
  segment.file = entry.at("file").as_string();
  XRUN_CHECK(segment.file == segment_name(index), "segment {} is in file \"{}\"", index,
             segment.file);
  segment.rows = entry.at("rows").as_int();
  segment.first_row = entry.at("first_row").as_int();
  XRUN_CHECK(segment.rows > 0 && segment.first_row == first_row,
             "segment {} has {} rows from row {}, wanted row {}", index, segment.rows,
             segment.first_row, first_row);
  segment.bytes = static_cast<uint64_t>(entry.at("bytes").as_int());
  for (const Json& count : entry.at("elements").as_array()) {
    segment.elements.push_back(count.as_int());
  }
  segment.head_bytes = static_cast<uint64_t>(entry.at("head_bytes").as_int());
  segment.head_xxh3 = read_hex64(entry.at("head_xxh3"));
  const Json& cursor = entry.at("cursor");
  segment.cursor.file = static_cast<int32_t>(cursor.at("file").as_int());
  segment.cursor.at.offset = static_cast<uint64_t>(cursor.at("offset").as_int());
  segment.cursor.at.lines = cursor.at("lines").as_int();
  segment.cursor.at.rows = cursor.at("rows").as_int();
  segment.cursor.at.column = static_cast<uint64_t>(cursor.at("column").as_int());
  segment.cursor.xxh3 = cursor.at("xxh3").as_string();
  return segment;
}

Json columns_json(const std::vector<Column>& columns) {
  Json list = Json::array();
  for (const Column& column : columns) {
    Json entry = Json::object();
    entry.set("name", column.name);
    entry.set("type", column_type_name(column.type));
    if (column.offsets >= 0) {
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
               "\"{}\" is no offsets column that stands before", name);
    return static_cast<int32_t>(found - columns.begin());
  };
  for (const Json& entry : list.as_array()) {
    Column column{entry.at("name").as_string(), {}, -1};
    const std::string& type = entry.at("type").as_string();
    for (uint32_t t = 1; t <= static_cast<uint32_t>(ColumnType::kBits); ++t) {
      if (type == column_type_name(ColumnType{t})) column.type = ColumnType{t};
    }
    XRUN_CHECK(column.type != ColumnType{}, "column \"{}\" has the unknown type \"{}\"",
               column.name, type);
    if (const Json* offsets = entry.find("offsets"))
      column.offsets = index_of(offsets->as_string());
    columns.push_back(std::move(column));
  }
  return columns;
}

CacheManifest decode_manifest(const Json& value) {
  XRUN_CHECK(value.at("format").as_string() == "xrun token cache", "is no manifest of a cache");
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
    manifest.segments.push_back(read_segment(entry, rows, manifest.segments.size()));
    rows += manifest.segments.back().rows;
    XRUN_CHECK(manifest.segments.back().elements.size() == manifest.columns.size(),
               "segment {} lists {} columns of {}", manifest.segments.size() - 1,
               manifest.segments.back().elements.size(), manifest.columns.size());
  }
  XRUN_CHECK(value.at("rows").as_int() == rows, "has {} rows in its segments and says {}", rows,
             value.at("rows").as_int());
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
  return segments.empty() ? 0 : segments.back().first_row + segments.back().rows;
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
  Json segments = Json::array();
  for (const SegmentEntry& segment : manifest.segments) segments.push_back(segment_json(segment));
  value.set("segments", std::move(segments));
  Json bad_rows = Json::object();
  bad_rows.set("rows", manifest.bad_rows.rows);
  bad_rows.set("bytes", manifest.bad_rows.bytes);
  bad_rows.set("xxh3", manifest.bad_rows.xxh3);
  value.set("bad_rows", std::move(bad_rows));
  value.set("summary", manifest.summary);
  value.set("ledger", manifest.ledger.to_json());
  std::string body = dump_json(value);
  body.pop_back();  // the brace, which the tail brings
  return fmt::format("{}{}{}{}", body, kTailBegin, hash_hex(body), kTailEnd);
}

CacheManifest read_manifest(const std::filesystem::path& dir, const std::string& name) {
  const std::string path = (dir / name).string();
  const std::string text = read_file(path, kMaxManifestBytes);
  const size_t body = text.size() < kTailBytes ? 0 : text.size() - kTailBytes;
  const std::string_view view(text);
  const bool whole = body > 0 && view.substr(body, kTailBegin.size()) == kTailBegin &&
                     view.ends_with(kTailEnd) &&
                     view.substr(body + kTailBegin.size(), 32) == hash_hex(view.substr(0, body));
  XRUN_CHECK(whole, "{}: is damaged: its bytes do not give its checksum; {}", path, kWayOut);
  CacheManifest manifest;
  try {
    manifest = decode_manifest(parse_json(text, path));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}; {}", path, error.what(), kWayOut));
  }
  const std::string folder = std::filesystem::weakly_canonical(dir).filename().string();
  XRUN_CHECK(manifest.key == cache_key(manifest.key_document),
             "{}: its key document hashes to {}, it says {}; {}", path,
             cache_key(manifest.key_document), manifest.key, kWayOut);
  XRUN_CHECK(manifest.key == folder,
             "{}: is the manifest of cache {}, but its folder is named {}; {}", path, manifest.key,
             folder, kWayOut);
  return manifest;
}

std::string segment_name(size_t index) { return fmt::format("segment_{:06}.bin", index); }

}  // namespace xrun
