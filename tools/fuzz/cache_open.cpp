// Edits to the manifest and the shard of a small cache: opening it throws an Error, or its rows can
// be read. The first byte of an input says whether the checksums are corrected after the edits, so
// that the code behind the checks is reached.
//
// The other bytes are edits: a byte for file and kind, two for the position, one for the length,
// then the bytes to write. Inputs hold no bytes of the format, so they survive a change of it.

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/row_cache.h"
#include "core/data/cache/row_columns.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

struct CacheFiles {
  CacheManifest manifest;
  std::string shard;
};

StoredRow make_row(int64_t number) {
  EncodedRow row;
  for (int64_t i = 0; i < 3 + 5 * number; ++i) {
    row.streams[0].ids.push_back(static_cast<int32_t>(i * 7 % 300));
    row.streams[0].trained.push_back(i > 1);
    row.streams[0].weights.push_back(0.5f);
  }
  row.prompt_hash = static_cast<uint64_t>(number / 2);
  row.extra = {Json(1.5), Json("name")};
  StoredRow stored;
  store_row(std::move(row), ColumnType::kU16, stored);
  return stored;
}

CacheFiles make_cache() {
  CacheFiles files;
  RowColumns columns({RowKind::kChat, 300, {"score", "topic"}, true});
  files.manifest.ledger.name = "rows";
  files.manifest.ledger.files = {"rows.jsonl"};
  std::vector<StoredRow> rows;
  for (int64_t r = 0; r < 5; ++r) {
    rows.push_back(make_row(r));
    columns.accept(rows.back(), {0, r + 1}, files.manifest.ledger);
  }
  files.manifest.columns = columns.columns();
  ShardData shard(files.manifest.columns);
  for (int64_t r = 0; r < 5; ++r) {
    columns.append(rows[static_cast<size_t>(r)], {0, r + 1}, shard);
    shard.end_row();
  }
  files.manifest.row_type = row_kind_name(RowKind::kChat);
  files.manifest.key_document = parse_json(R"({"tokenizer": "fuzz"})", "key");
  files.manifest.key = cache_key(files.manifest.key_document);
  files.manifest.summary = columns.summary();
  files.manifest.ledger.rows = files.manifest.ledger.lines = files.manifest.ledger.kept = 5;
  files.shard = shard.head(0, 0, files.manifest.key);
  shard.body([&](std::string_view piece) { files.shard += piece; });
  ShardEntry entry;
  entry.file = shard_name(0);
  entry.rows = 5;
  for (size_t c = 0; c < files.manifest.columns.size(); ++c) {
    entry.elements.push_back(static_cast<int64_t>(shard.elements(c)));
  }
  files.manifest.shards.push_back(entry);
  return files;
}

class Edits {
 public:
  explicit Edits(std::string_view bytes) : bytes_(bytes) {}

  // Applies the edits that name `file` (0: the shard, 1: the manifest).
  void apply(size_t file, std::string& to) const {
    std::string_view left = bytes_;
    while (left.size() >= 4) {
      const auto byte = [&](size_t i) { return size_t{static_cast<uint8_t>(left[i])}; };
      const size_t kind = byte(0) / 2 % 4, length = byte(3);
      const size_t at = (byte(1) + 256 * byte(2)) % (to.size() + 1);
      const std::string_view written = left.substr(4, kind == 2 ? 0 : length);
      if (byte(0) % 2 == file) edit(to, kind, at, length, written);
      left.remove_prefix(4 + written.size());
    }
  }

 private:
  static void edit(std::string& to, size_t kind, size_t at, size_t length,
                   std::string_view written) {
    switch (kind) {
      case 0: to.replace(at, written.size(), written); break;
      case 1: to.insert(at, written); break;
      case 2: to.erase(at, length); break;
      case 3: to.resize(at); break;
    }
  }
  std::string_view bytes_;
};

// Rewrites the checksums of a shard's pages if its head still has room for them.
void mend_pages(std::string& shard) {
  constexpr size_t kColumns = 12, kPages = 44;  // in the header: docs/cache-format.md
  uint32_t columns = 0, pages = 0;
  if (shard.size() < 64) return;
  std::memcpy(&columns, shard.data() + kColumns, 4);
  std::memcpy(&pages, shard.data() + kPages, 4);
  ShardHeader header;
  if (columns > 1000 || pages > 1000) return;
  header.columns.resize(columns);
  header.pages = pages;
  if (header.head_bytes() > shard.size()) return;
  for (uint32_t page = 0; page < pages; ++page) {
    const size_t begin = header.head_bytes() + page * kPageBytes;
    if (begin >= shard.size()) return;
    const uint64_t sum = hash_u64(std::string_view(shard).substr(begin, kPageBytes));
    std::memcpy(shard.data() + header.column_table_end() + 8 * page, &sum, 8);
  }
}

std::string manifest_text(CacheFiles& files, const Edits& edits, bool mend) {
  ShardEntry& entry = files.manifest.shards[0];
  entry.bytes = files.shard.size();
  ShardHeader header;
  header.columns.resize(files.manifest.columns.size());
  header.pages = (files.shard.size() + kPageBytes - 1) / kPageBytes;
  entry.head_bytes = std::min<uint64_t>(header.head_bytes(), files.shard.size());
  entry.head_xxh3 = hash_u64(std::string_view(files.shard).substr(0, entry.head_bytes));
  std::string text = encode_manifest(files.manifest);
  // The text ends in ,"xxh3":"..."} and a line end; the 32 digits are the hash of all before it.
  constexpr std::string_view kTail = ",\"xxh3\":\"";
  std::string body = text.substr(0, text.rfind(kTail));
  edits.apply(1, body);
  const std::string sum = mend ? hash_hex(body) : text.substr(text.size() - 35, 32);
  return body + std::string(kTail) + sum + "\"}\n";
}

void read_all(const std::filesystem::path& dir) {
  const auto cache = RowCache::open(dir, RowKind::kChat);
  TokenStream stream;
  for (int64_t row = 0; row < std::min<int64_t>(cache->size(), 100); ++row) {
    try {
      cache->read(row, 0, stream);
      fuzz_check(stream.ids.size() == stream.trained.size(), "ids and mask differ");
      cache->at(row);
      cache->prompt_hash(row);
      for (size_t k = 0; k < cache->extra_columns().size(); ++k) {
        if (cache->extra_columns()[k].is_number) {
          cache->extra_number(row, k);
        } else {
          cache->extra_string(row, k);
        }
      }
      cache->row_of_token(cache->first_token(row));
    } catch (const Error&) {
    }
  }
  cache->verify();
}

}  // namespace

void fuzz_cache_open(std::string_view input) {
  static const CacheFiles whole = make_cache();
  if (input.empty()) return;
  const bool mend = input[0] % 8 != 0;
  const Edits edits(input.substr(1));
  CacheFiles files = whole;
  edits.apply(0, files.shard);
  if (mend) mend_pages(files.shard);
  const std::string manifest = manifest_text(files, edits, mend);
  const std::filesystem::path dir =
      fuzz_file(files.manifest.key + "/" + shard_name(0), files.shard);
  fuzz_file(files.manifest.key + "/" + kManifestName, manifest);
  try {
    read_all(dir / files.manifest.key);
  } catch (const Error&) {
  }
}

}  // namespace xrun
