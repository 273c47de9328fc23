#pragma once
// A row type small enough to see through: {"text": "..."}; texts that begin with "bad" are refused.

#include <signal.h>

#include <filesystem>
#include <map>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/data/cache_build.h"
#include "core/data/cache_manifest.h"

namespace xrun {

class ToyRows : public RowType {
 public:
  std::string name() const override { return "toy"; }
  std::vector<Column> columns() const override {
    return {{"offsets", ColumnType::kI64, -1},
            {"text", ColumnType::kU8, 0},
            {"flags", ColumnType::kBits, 0},
            {"line", ColumnType::kI64, -1}};
  }
  void read(Json value, const SourceLine& at, SourceLedger& ledger) override {
    text_ = value.at("text").as_string();
    line_ = at.line;
    if (text_.starts_with("bad")) throw RowRefusal("bad", "it says so");
    if (text_.starts_with("stop")) throw Error(ledger.place(at) + ": stop");
    ledger.tokens += static_cast<int64_t>(text_.size());
  }
  void append(SegmentData& segment) override {
    std::vector<uint8_t> flags;
    for (char c : text_) flags.push_back(c == 'a');
    segment.push_text(1, text_);
    segment.push_bits(2, flags);
    segment.push_offset(0, 1);
    segment.push<int64_t>(3, line_);
    ++rows_;
  }
  Json summary() const override {
    Json value = Json::object();
    value.set("rows", rows_);
    return value;
  }
  void restore(const Json& summary) override { rows_ = summary.at("rows").as_int(); }

 private:
  std::string text_;
  int64_t line_ = 0;
  int64_t rows_ = 0;
};

// Raises the interrupt at a line.
class InterruptedRows : public ToyRows {
 public:
  explicit InterruptedRows(int64_t line = 300) : line_(line) {}
  void read(Json value, const SourceLine& at, SourceLedger& ledger) override {
    if (at.line == line_) request_interrupt(SIGINT);
    ToyRows::read(std::move(value), at, ledger);
  }

 private:
  int64_t line_;
};

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
  source.key_document = Json::object();
  source.key_document.set("files", data_files_json(source.files));
  source.key_document.set("segment_bytes", segment_bytes);
  return source;
}

inline std::filesystem::path build_toys(const std::filesystem::path& root,
                                        const CacheSource& source) {
  ToyRows rows;
  return ensure_cache(root, source, rows);
}

// The files of a finished cache, apart from its lock.
inline std::map<std::string, std::string> files_of(const std::filesystem::path& dir) {
  std::map<std::string, std::string> files;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name != "lock" && name != kPartialName) files[name] = read_file(entry.path());
  }
  return files;
}

}  // namespace xrun
