// local header, data, ..., directory of (name, offset, size, CRC), zip64 record, end record.
// Reading begins at the end record; every offset is compared with the file's size before it is
// followed.

#include "core/distill/torch_file_zip.h"

#include <array>
#include <cstring>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr uint32_t kEndRecord = 0x06054b50, kEnd64Record = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50, kLocalHeader = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr uint64_t kEntryBytes = 46, kLocalBytes = 30;
constexpr uint32_t kIn64 = 0xFFFFFFFF;  // the value is in the zip64 field

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xEDB88320 ^ value >> 1 : value >> 1;
    table[byte] = value;
  }
  return table;
}

// Little-endian reads within the file.
class ZipReader {
 public:
  ZipReader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  std::vector<ZipMember> members() const {
    const Directory directory = find_directory();
    std::vector<ZipMember> members;
    uint64_t at = directory.begin;
    for (uint64_t i = 0; i < directory.entries; ++i) members.push_back(member(at, directory.end));
    return members;
  }

 private:
  struct Directory {
    uint64_t entries, begin, end;
  };

  [[noreturn]] void damaged(const char* what) const {
    throw Error(
        fmt::format("{}: {}; the file is truncated or damaged, fetch it again", where_, what));
  }
  // Throws unless [at, at + size) is within [0, end).
  void within(uint64_t at, uint64_t size, uint64_t end, const char* what) const {
    if (at > end || size > end - at) damaged(what);
  }
  // Requires that the value is within the file.
  template <class T>
  T read(uint64_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }

  uint64_t find_end_record() const {
    // A comment of at most 65,535 bytes may follow the record.
    const uint64_t size = bytes_.size();
    for (uint64_t back = kEndBytes; back <= size && back <= kEndBytes + 65535; ++back) {
      const uint64_t at = size - back;
      if (read<uint32_t>(at) == kEndRecord && read<uint16_t>(at + 20) == back - kEndBytes) {
        return at;
      }
    }
    throw Error(fmt::format(
        "{}: is not a zip archive, as torch.save has written them since PyTorch 1.6", where_));
  }

  Directory find_directory() const {
    const uint64_t end = find_end_record();
    uint64_t entries = read<uint16_t>(end + 10);
    uint64_t bytes = read<uint32_t>(end + 12), begin = read<uint32_t>(end + 16);
    if (entries == 0xFFFF || bytes == kIn64 || begin == kIn64) {
      if (end < kLocatorBytes || read<uint32_t>(end - kLocatorBytes) != kEnd64Locator) {
        damaged("its zip64 record is missing");
      }
      const auto at = read<uint64_t>(end - kLocatorBytes + 8);
      within(at, kEnd64Bytes, end, "its zip64 record is beyond the end");
      if (read<uint32_t>(at) != kEnd64Record) damaged("its zip64 record is missing");
      entries = read<uint64_t>(at + 32);
      bytes = read<uint64_t>(at + 40);
      begin = read<uint64_t>(at + 48);
    }
    within(begin, bytes, end, "its directory is beyond the end");
    if (entries > bytes / kEntryBytes) damaged("its directory is too short");
    return {entries, begin, begin + bytes};
  }

  // Reads the entry at `at` and moves `at` behind it.
  ZipMember member(uint64_t& at, uint64_t end) const {
    within(at, kEntryBytes, end, "its directory is too short");
    if (read<uint32_t>(at) != kDirectoryEntry) damaged("its directory has a damaged entry");
    const auto flags = read<uint16_t>(at + 8), method = read<uint16_t>(at + 10);
    const uint64_t name_bytes = read<uint16_t>(at + 28), extra_bytes = read<uint16_t>(at + 30);
    const uint64_t comment_bytes = read<uint16_t>(at + 32);
    within(at + kEntryBytes, name_bytes + extra_bytes + comment_bytes, end,
           "its directory is too short");
    ZipMember member;
    member.name = bytes_.substr(at + kEntryBytes, name_bytes);
    member.crc = read<uint32_t>(at + 16);
    uint64_t packed = read<uint32_t>(at + 20), size = read<uint32_t>(at + 24);
    uint64_t local = read<uint32_t>(at + 42);
    read_zip64(at + kEntryBytes + name_bytes, extra_bytes, {&size, &packed, &local});
    XRUN_CHECK((flags & 1) == 0, "{}: its member {} is encrypted", where_, member.name);
    XRUN_CHECK(method == 0 && packed == size,
               "{}: its member {} is compressed, which torch.save never does", where_, member.name);
    within(local, kLocalBytes, bytes_.size(), "a member is beyond the end");
    if (read<uint32_t>(local) != kLocalHeader) damaged("a member has no header");
    const uint64_t data =
        local + kLocalBytes + read<uint16_t>(local + 26) + read<uint16_t>(local + 28);
    within(data, size, bytes_.size(), "a member is beyond the end");
    member.data = bytes_.substr(data, size);
    at += kEntryBytes + name_bytes + extra_bytes + comment_bytes;
    return member;
  }

  // Replaces the values that are marked as being in the zip64 field, which has them in this order.
  void read_zip64(uint64_t at, uint64_t extra_bytes, std::array<uint64_t*, 3> values) const {
    const uint64_t end = at + extra_bytes;
    while (at + 4 <= end) {
      const uint64_t id = read<uint16_t>(at), bytes = read<uint16_t>(at + 2);
      at += 4;
      within(at, bytes, end, "an extra field is too short");
      if (id == 1) {
        uint64_t from = at;
        for (uint64_t* value : values) {
          if (*value != kIn64) continue;
          within(from, 8, at + bytes, "a zip64 field is too short");
          *value = read<uint64_t>(from);
          from += 8;
        }
        return;
      }
      at += bytes;
    }
  }

  std::string_view bytes_;
  const std::string& where_;
};

}  // namespace

std::vector<ZipMember> read_stored_zip(std::string_view bytes, const std::string& where) {
  return ZipReader(bytes, where).members();
}

uint32_t zip_crc32(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

void check_zip_member(const ZipMember& member, const std::string& where) {
  XRUN_CHECK(zip_crc32(member.data) == member.crc,
             "{}: the checksum of its member {} is wrong: the file is damaged, or was saved with "
             "torch.serialization.set_crc32_options(False)",
             where, member.name);
}

}  // namespace xrun
