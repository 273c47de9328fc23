// Every writer reads what others appended before it appends itself, all under the folder's lock, so
// that a record once sound stays where it is and only a torn tail is ever cut.

#include "core/train/logprob_column.h"

#include <bit>
#include <cstring>

#include "core/base/cache_root.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"

namespace xrun {
namespace {

static_assert(std::endian::native == std::endian::little, "column.bin is little endian");

constexpr uint64_t kBodyBytes = 32;
constexpr uint64_t kRecordBytes = 40;

std::filesystem::path folder_of(const std::filesystem::path& root, const std::string& document) {
  return root / hash_hex(document);
}

std::filesystem::path file_of(const std::filesystem::path& dir) { return dir / "column.bin"; }

uint64_t file_bytes(const std::filesystem::path& path) {
  std::error_code failed;
  const uint64_t size = std::filesystem::file_size(path, failed);
  return failed ? 0 : size;
}

}  // namespace

std::filesystem::path columns_dir() { return cache_root() / "columns"; }

bool has_column(const std::filesystem::path& root, const Json& key) {
  return file_bytes(file_of(folder_of(root, dump_json(key)))) >= kRecordBytes;
}

LogprobColumn::LogprobColumn(const std::filesystem::path& root, const Json& key) {
  const std::string document = dump_json(key);
  dir_ = folder_of(root, document);
  make_dirs(dir_);
  const FileLock lock(dir_ / "lock", /*wait=*/true, check_interrupt);
  const std::filesystem::path key_file = dir_ / "key.json";
  if (!std::filesystem::exists(key_file)) {
    write_file_atomic(key_file, document);
  } else {
    XRUN_CHECK(read_file(key_file, 1 << 20) == document,
               "{}: this column of reference log-probs does not belong to its folder; remove {}",
               key_file.string(), dir_.string());
  }
  read_records();
}

uint64_t LogprobColumn::read_records() {
  if (file_bytes(file_of(dir_)) <= end_) return end_;
  const std::string bytes = read_file(file_of(dir_));
  while (end_ + kRecordBytes <= bytes.size()) {
    const char* at = bytes.data() + end_;
    uint64_t checksum;
    std::memcpy(&checksum, at + kBodyBytes, sizeof checksum);
    if (checksum != hash_u64(std::string_view(at, kBodyBytes))) break;
    Record record;
    std::memcpy(&record.row, at, 8);
    std::memcpy(&record.side, at + 8, 8);
    std::memcpy(&record.tokens, at + 16, 8);
    std::memcpy(&record.value, at + 24, 4);
    // The first record of a segment stands: a later one has the same bits or other tokens.
    values_.try_emplace({record.row, record.side}, Value{record.tokens, record.value});
    end_ += kRecordBytes;
  }
  return end_;
}

std::optional<float> LogprobColumn::find(int64_t row, int8_t side, uint64_t tokens) const {
  const auto found = values_.find({row, side});
  if (found == values_.end() || found->second.tokens != tokens) return std::nullopt;
  return found->second.value;
}

void LogprobColumn::add(int64_t row, int8_t side, uint64_t tokens, float value) {
  values_[{row, side}] = {tokens, value};
  pending_.push_back({row, side, tokens, value});
}

void LogprobColumn::flush() {
  if (pending_.empty()) return;
  const FileLock lock(dir_ / "lock", /*wait=*/true);
  const std::filesystem::path path = file_of(dir_);
  const uint64_t sound = read_records();
  if (file_bytes(path) > sound) std::filesystem::resize_file(path, sound);
  FileWriter out(path, FileWriter::Mode::kAppend);
  for (const Record& record : pending_) {
    char bytes[kRecordBytes] = {};
    std::memcpy(bytes, &record.row, 8);
    std::memcpy(bytes + 8, &record.side, 8);
    std::memcpy(bytes + 16, &record.tokens, 8);
    std::memcpy(bytes + 24, &record.value, 4);
    const uint64_t checksum = hash_u64(std::string_view(bytes, kBodyBytes));
    std::memcpy(bytes + kBodyBytes, &checksum, 8);
    out.write(bytes, kRecordBytes);
  }
  out.sync();
  out.close();
  end_ = sound + pending_.size() * kRecordBytes;
  pending_.clear();
}

}  // namespace xrun
