// A record is u64 length, u32 masked crc of it, data, u32 masked crc of the data, little-endian.
// An Event is {1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary,
// 7: SessionLog}; a Summary repeats 1: Value{1: string tag, 2: float simple_value}.

#include "core/run/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "core/base/error.h"
#include "core/base/folder.h"

namespace xrun {

namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // Castagnoli, reflected
constexpr size_t kRecordFrame = 16;           // bytes of a record besides its data
constexpr std::string_view kPrefix = "events.out.tfevents.";

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

uint32_t crc_by_table(std::string_view data, uint32_t crc) {
  for (const unsigned char c : data) crc = (crc >> 8) ^ kTable[(crc ^ c) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc_by_sse(std::string_view data, uint32_t crc) {
  uint64_t wide = crc;
  while (data.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, data.data(), 8);
    wide = _mm_crc32_u64(wide, word);
    data.remove_prefix(8);
  }
  crc = static_cast<uint32_t>(wide);
  for (const unsigned char c : data) crc = _mm_crc32_u8(crc, c);
  return crc;
}
#endif

// TFRecord stores masked checksums: the CRC of data that contains its own CRC is problematic
// (tensorflow/core/lib/hash/crc32c.h).
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

template <typename T>
void append_fixed(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

template <typename T>
T read_fixed(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

// Protobuf wire types: 0 varint, 1 fixed64, 2 length-delimited, 5 fixed32.
void append_key(std::string& out, int field, int wire_type) {
  append_varint(out, static_cast<uint64_t>(field << 3 | wire_type));
}

void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_key(out, field, 2);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string event_start(double wall_time, int64_t step) {
  std::string event;
  append_key(event, 1, 1);
  append_fixed(event, wall_time);
  if (step != 0) {  // proto3 leaves defaults out
    append_key(event, 2, 0);
    append_varint(event, static_cast<uint64_t>(step));
  }
  return event;
}

double wall_time_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// At this mark TensorBoard forgets the steps from here on that it has already read.
std::string start_mark(int64_t step) {
  std::string event = event_start(wall_time_now(), step);
  append_bytes(event, 7, "\x08\x01");  // SessionLog{1: status = START}
  return event;
}

std::optional<uint64_t> take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Returns the step of an event as event_start writes it: wall_time first, then step or nothing.
int64_t event_step(std::string_view event) {
  // 0x09: field 1, fixed64; 0x10: field 2, varint.
  if (event.size() < 10 || event[0] != 0x09 || event[9] != 0x10) return 0;
  event.remove_prefix(10);
  return static_cast<int64_t>(take_varint(event).value_or(0));
}

// Returns the data of the record at the front and removes it, or nothing if it is torn or damaged.
std::optional<std::string_view> take_record(std::string_view& bytes) {
  if (bytes.size() < kRecordFrame) return std::nullopt;
  const auto length = read_fixed<uint64_t>(bytes);
  if (masked(crc32c(bytes.substr(0, 8))) != read_fixed<uint32_t>(bytes.substr(8))) return {};
  if (length > bytes.size() - kRecordFrame) return std::nullopt;
  const std::string_view data = bytes.substr(12, length);
  if (masked(crc32c(data)) != read_fixed<uint32_t>(bytes.substr(12 + length))) return {};
  bytes.remove_prefix(kRecordFrame + length);
  return data;
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  for (std::filesystem::path& path : list_folder(dir)) {
    if (path.filename().string().starts_with(kPrefix)) files.push_back(std::move(path));
  }
  return files;
}

// TensorBoard reads a folder's files in the order of their names, so a restart within the same
// second takes the next one.
std::filesystem::path next_file(const std::filesystem::path& dir,
                                const std::vector<std::filesystem::path>& files) {
  auto stamp = static_cast<int64_t>(wall_time_now());
  for (const auto& file : files) {
    const std::string name = file.filename().string();
    int64_t seconds = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
    stamp = std::max(stamp, seconds + 1);
  }
  return dir / fmt::format("{}{:010}.xrun", kPrefix, stamp);
}

}  // namespace

uint32_t crc32c(std::string_view data, uint32_t crc) {
  crc = ~crc;
#if defined(__x86_64__)
  // Asked once: the test reads cpuid.
  static const bool has_sse = __builtin_cpu_supports("sse4.2");
  if (has_sse) return ~crc_by_sse(data, crc);
#endif
  return ~crc_by_table(data, crc);
}

std::string tensorboard_record(std::string_view data) {
  std::string record;
  append_fixed(record, static_cast<uint64_t>(data.size()));
  append_fixed(record, masked(crc32c(record)));
  record += data;
  append_fixed(record, masked(crc32c(data)));
  return record;
}

std::string scalar_event(double wall_time, int64_t step,
                         std::span<const std::pair<std::string, double>> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    std::string scalar;
    append_bytes(scalar, 1, tag);
    append_key(scalar, 2, 5);
    append_fixed(scalar, static_cast<float>(value));
    append_bytes(summary, 1, scalar);
  }
  std::string event = event_start(wall_time, step);
  append_bytes(event, 5, summary);
  return event;
}

void cut_events(const std::filesystem::path& path, int64_t step) {
  const std::string bytes = read_file(path);
  std::string_view rest = bytes;
  size_t kept = 0;
  while (const auto record = take_record(rest)) {
    if (event_step(*record) >= step && kept > 0) break;  // the first record is the file's version
    kept = bytes.size() - rest.size();
  }
  if (kept < bytes.size()) set_file_size(path, kept);
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& dir, int64_t first_step) {
  make_dirs(dir);
  const auto files = event_files(dir);
  // All of them: a run resumed twice has steps after first_step in two files.
  for (const auto& file : files) cut_events(file, first_step);
  file_ = std::make_unique<FileWriter>(next_file(dir, files));
  std::string version = event_start(wall_time_now(), 0);
  append_bytes(version, 3, "brain.Event:2");
  file_->write(tensorboard_record(version));
  // A TensorBoard that is already open has read the steps that were cut from the files.
  if (first_step > 0) file_->write(tensorboard_record(start_mark(first_step)));
  file_->flush();
}

void TensorBoardWriter::write_record(const std::string& event) {
  if (file_ == nullptr) return;
  try {
    file_->write(tensorboard_record(event));
    file_->flush();
  } catch (...) {
    file_.reset();
    throw;
  }
}

void TensorBoardWriter::forget(int64_t step) { write_record(start_mark(step)); }

void TensorBoardWriter::write(int64_t step,
                              std::span<const std::pair<std::string, double>> scalars) {
  std::vector<std::pair<std::string, double>> finite;
  for (const auto& scalar : scalars) {
    // TensorBoard scales its axes by every point; metrics.jsonl counts those left out.
    if (std::isfinite(scalar.second)) finite.push_back(scalar);
  }
  if (!finite.empty()) write_record(scalar_event(wall_time_now(), step, finite));
}

void TensorBoardWriter::sync() {
  if (file_ != nullptr) file_->sync();
}

}  // namespace xrun
