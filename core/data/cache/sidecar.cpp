// values.bin is a sequence of records, little-endian:
//   row i64 | side i32 | count u32 | stamp u64 | count values, padded to 8 bytes | check u64
// where check is the XXH3-64 of the bytes of the record before it. A writer holds the folder's lock
// and first reads what others have appended, so that a whole record never moves. It cuts the file
// at the first torn or damaged record: values are computed again, never guessed.

#include "core/data/cache/sidecar.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_lock.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/data/cache/cache_folder.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "values.bin is little-endian");

constexpr int64_t kSidecarVersion = 1;
constexpr const char* kKeyName = "key.json";
constexpr const char* kValuesName = "values.bin";
constexpr uint64_t kMaxKeyBytes = 1 << 20;
constexpr uint64_t kHeadBytes = 24;
constexpr uint64_t kCheckBytes = 8;
constexpr uint64_t kRecordAlignment = 8;   // of the begin of a record in bytes
constexpr uint64_t kPieceBytes = 1 << 20;  // read at once

struct RecordHead {
  int64_t row;
  int32_t side;
  uint32_t count;
  uint64_t stamp;
};
static_assert(sizeof(RecordHead) == kHeadBytes);

uint64_t padded(uint64_t bytes) {
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

class ClosedAtEnd {
 public:
  explicit ClosedAtEnd(int fd) : fd_(fd) {}
  ~ClosedAtEnd() { ::close(fd_); }
  ClosedAtEnd(const ClosedAtEnd&) = delete;
  ClosedAtEnd& operator=(const ClosedAtEnd&) = delete;

 private:
  int fd_;
};

// Returns `size` bytes of a file from `at` on; fewer only at its end.
std::string read_at(int fd, const fs::path& path, uint64_t at, uint64_t size) {
  std::string bytes(size, '\0');
  uint64_t total = 0;
  while (total < size) {
    const ssize_t n =
        ::pread(fd, bytes.data() + total, size - total, static_cast<off_t>(at + total));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int code = errno;
      throw FileError(code,
                      fmt::format("{}: cannot be read: {}", path.string(), std::strerror(code)));
    }
    if (n == 0) break;
    total += static_cast<uint64_t>(n);
  }
  bytes.resize(total);
  return bytes;
}

// Calls take(head, offset of the values) for each whole record from `at` on and returns where the
// records end. Sets `intact` to false if the next record is damaged, and to true if the file ends
// there or inside that record. Calls poll() between pieces of the file.
// A jagged record that reaches beyond the end of the file is torn, or its count is damaged. Only a
// whole record behind its head tells: nobody appends after a torn one.
template <class Take>
uint64_t read_from(int fd, const fs::path& path, uint64_t at, uint64_t value_bytes, int64_t width,
                   bool& intact, void (*poll)(), const Take& take) {
  const off_t end = ::lseek(fd, 0, SEEK_END);
  const uint64_t size = end < 0 ? 0 : static_cast<uint64_t>(end);
  intact = true;
  std::string piece;
  uint64_t begin = 0;  // of the piece in the file
  const auto bytes_at = [&](uint64_t from, uint64_t count) {
    // Records are read in order, so one large piece serves thousands of them.
    if (from < begin || from + count > begin + piece.size()) {
      poll();
      begin = from;
      piece = read_at(fd, path, from, std::max(kPieceBytes, count));
    }
    return std::string_view(piece).substr(from - begin, count);
  };
  const auto head_at = [&](uint64_t from) {
    RecordHead head{};
    const std::string_view bytes = bytes_at(from, kHeadBytes);
    // Fewer bytes if another process has just cut the file.
    std::memcpy(&head, bytes.data(), bytes.size());
    return head;
  };
  // At most 2^32 values of 8 bytes, so a hostile count does not overflow.
  const auto body_of = [&](const RecordHead& head) {
    return kHeadBytes + padded(head.count * value_bytes);
  };
  const auto is_whole = [&](uint64_t from, uint64_t body) {
    if (from + body + kCheckBytes > size) return false;
    const std::string_view record = bytes_at(from, body + kCheckBytes);
    if (record.size() != body + kCheckBytes) return false;
    uint64_t check = 0;
    std::memcpy(&check, record.data() + body, kCheckBytes);
    return check == hash_u64(record.substr(0, body));
  };
  const auto has_whole_record_from = [&](uint64_t from) {
    for (; from + kHeadBytes + kCheckBytes <= size; from += kRecordAlignment) {
      const RecordHead head = head_at(from);
      // Most heads inside values fail here, so that few are hashed.
      if (head.row < 0 || head.side < -1 || head.side > 1) continue;
      if (is_whole(from, body_of(head))) return true;
    }
    return false;
  };
  while (at + kHeadBytes + kCheckBytes <= size) {
    const RecordHead head = head_at(at);
    const uint64_t body = body_of(head);
    // Another count than the width is damage, not a torn tail: nothing after it can be trusted.
    intact = width == 0 || head.count == static_cast<uint64_t>(width);
    if (!intact) break;
    if (at + body + kCheckBytes > size) {
      intact = width != 0 || !has_whole_record_from(at + kHeadBytes);
      break;
    }
    intact = is_whole(at, body);
    if (!intact) break;
    take(head, at + kHeadBytes);
    at += body + kCheckBytes;
  }
  return at;
}

// The hash of the key names the folder, so another reference or tokenizer gets another folder.
fs::path dir_of(const fs::path& root, const SidecarKey& key) {
  return root / hash_hex(dump_json(key.document()));
}

int open_values(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0 || errno == ENOENT) return fd;
  const int code = errno;
  throw FileError(code,
                  fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(code)));
}

}  // namespace

Json SidecarKey::document() const {
  Json document = Json::object();
  document.set("format", "xrun sidecar");
  document.set("version", kSidecarVersion);
  document.set("name", name);
  document.set("type", column_type_name(type));
  document.set("width", width);
  document.set("made_by", made_by);
  return document;
}

fs::path sidecar_root() { return cache_root() / "columns"; }

bool Sidecar::exists(const fs::path& root, const SidecarKey& key) {
  // A smaller file has no record.
  std::error_code failed;
  const uint64_t bytes = fs::file_size(dir_of(root, key) / kValuesName, failed);
  return !failed && bytes >= kHeadBytes + kCheckBytes;
}

Sidecar::Sidecar(const fs::path& root, const SidecarKey& key)
    : dir_(dir_of(root, key)), value_bytes_(column_bytes(key.type, 1)), width_(key.width) {
  const std::string document = dump_json(key.document());
  make_dirs(dir_);
  // Other runs of the same reference append to this file.
  const FileLock lock(dir_ / kLockName, /*wait=*/true, check_interrupt);
  const fs::path key_file = dir_ / kKeyName;
  if (!path_exists(key_file)) {
    write_file_atomic(key_file, document);
  } else {
    XRUN_CHECK(read_file(key_file, kMaxKeyBytes) == document,
               "{}: this sidecar does not belong to its folder; remove {}", key_file.string(),
               dir_.string());
  }
  read_records(check_interrupt);
  std::error_code failed;
  const uint64_t size = fs::file_size(dir_ / kValuesName, failed);
  // Under the lock nobody is writing, so a record that ends too early will never be whole.
  if (damage_.empty() && !failed && size > end_) {
    damage_ = fmt::format(
        "{}: ends inside the record at byte {}, as after a kill; its values are computed again",
        (dir_ / kValuesName).string(), end_);
  }
}

Sidecar::~Sidecar() {
  if (fd_ >= 0) ::close(fd_);
}

void Sidecar::read_records(void (*poll)()) {
  const fs::path path = dir_ / kValuesName;
  if (fd_ < 0) fd_ = open_values(path);
  if (fd_ < 0) return;
  bool intact = true;
  end_ =
      read_from(fd_, path, end_, value_bytes_, width_, intact, poll,
                [&](const RecordHead& head, uint64_t offset) {
                  // The first value stays.
                  index_.try_emplace({head.row, head.side, head.stamp}, Stored{offset, head.count});
                });
  if (!intact) {
    damage_ = fmt::format("{}: is damaged at byte {}; the values after it are computed again",
                          path.string(), end_);
  }
}

std::optional<std::string> Sidecar::find_bytes(const SidecarEntry& entry,
                                               size_t value_bytes) const {
  XRUN_CHECK(value_bytes == value_bytes_, "{}: its values have {} bytes, {} were asked for",
             dir_.string(), value_bytes_, value_bytes);
  if (const auto known = pending_.find(entry); known != pending_.end()) return known->second;
  const auto known = index_.find(entry);
  if (known == index_.end()) return std::nullopt;
  const uint64_t bytes = known->second.count * value_bytes_;
  std::string values = read_at(fd_, dir_ / kValuesName, known->second.offset, bytes);
  XRUN_CHECK(values.size() == bytes, "{}: is shorter than it was when it was opened; remove {}",
             (dir_ / kValuesName).string(), dir_.string());
  return values;
}

bool Sidecar::has(int64_t row, int32_t side) const {
  const auto has_in = [&](const auto& entries) {
    // Any stamp counts: the planner asks before the tokens are known.
    const auto first = entries.lower_bound({row, side, 0});
    return first != entries.end() && first->first.row == row && first->first.side == side;
  };
  return has_in(index_) || has_in(pending_);
}

// Keeps the values in memory until flush(), so that a step writes once.
void Sidecar::add_bytes(const SidecarEntry& entry, std::string_view bytes, size_t value_bytes) {
  const uint64_t count = bytes.size() / value_bytes;
  XRUN_CHECK(value_bytes == value_bytes_ && count <= UINT32_MAX &&
                 (width_ == 0 || count == static_cast<uint64_t>(width_)),
             "{}: an entry of {} values of {} bytes, wanted {} of {} bytes", dir_.string(), count,
             value_bytes, width_ == 0 ? "any number" : std::to_string(width_), value_bytes_);
  if (!index_.contains(entry)) pending_.try_emplace(entry, bytes);
}

void Sidecar::refresh() { read_records(note_activity); }

void Sidecar::flush() {
  if (pending_.empty()) return;
  // Waiting for another process that writes for long must not look like a hang of this one.
  const FileLock lock(dir_ / kLockName, /*wait=*/true, note_activity);
  const fs::path path = dir_ / kValuesName;
  // Reads what others have appended since, so that no value is written twice. It polls no signal,
  // which must not stop one rank at the end of a step while the others go on.
  read_records(note_activity);
  std::error_code failed;
  const uint64_t size = fs::file_size(path, failed);
  // A killed writer left a part of a record; anything appended after it could never be read.
  if (!failed && size > end_) set_file_size(path, end_);
  FileWriter out(path, FileWriter::Mode::kAppend);
  std::string record;
  for (const auto& [entry, bytes] : pending_) {
    if (index_.contains(entry)) continue;  // another process was first
    const RecordHead head{entry.row, entry.side, static_cast<uint32_t>(bytes.size() / value_bytes_),
                          entry.stamp};
    record.assign(reinterpret_cast<const char*>(&head), kHeadBytes);
    record += bytes;
    record.resize(kHeadBytes + padded(bytes.size()), '\0');
    const uint64_t check = hash_u64(record);
    record.append(reinterpret_cast<const char*>(&check), kCheckBytes);
    out.write(record);
  }
  // Synced before the lock is released, so that nobody appends to bytes that may vanish.
  out.sync();
  out.close();
  pending_.clear();
  // Puts the written values into the index with their offsets.
  read_records(note_activity);
}

// Problems are returned, not thrown, so that all folders are checked.
std::vector<SidecarCheck> verify_sidecars(const fs::path& root) {
  std::vector<SidecarCheck> checks;
  std::error_code code;
  if (!fs::exists(root, code)) return checks;
  for (const fs::path& dir : list_folder(root)) {
    // Other folders are not sidecars.
    if (!is_cache_key(dir.filename().string())) continue;
    SidecarCheck check;
    check.dir = dir;
    try {
      const std::string document = read_file(dir / kKeyName, kMaxKeyBytes);
      XRUN_CHECK(hash_hex(document) == dir.filename().string(),
                 "{}: does not hash to the name of its folder; remove {}",
                 (dir / kKeyName).string(), dir.string());
      const Json key = parse_json(document, (dir / kKeyName).string());
      check.name = key.at("name").as_string();
      const ColumnType type = column_type_of(key.at("type").as_string());
      const fs::path path = dir / kValuesName;
      if (const int fd = open_values(path); fd >= 0) {
        const ClosedAtEnd closed(fd);
        bool intact = true;
        const uint64_t end =
            read_from(fd, path, 0, column_bytes(type, 1), key.at("width").as_int(), intact,
                      check_interrupt, [&](const RecordHead&, uint64_t) { ++check.entries; });
        XRUN_CHECK(intact,
                   "{}: is damaged at byte {}; the next run computes the values after it again",
                   path.string(), end);
      }
    } catch (const Error& error) {
      check.problem = error.what();
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace xrun
