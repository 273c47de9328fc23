// Layout: local header, data, ..., directory of (name, offset, size, CRC), zip64 record, end
// record. Reading begins at the end record; every offset is compared with the file's size before it
// is followed.

#include "core/base/zip_archive.h"

#include <array>
#include <cstring>

#include "core/base/error.h"

namespace xrun {

namespace {

// Signatures and sizes of the records; their fields are at the offsets of PKWARE's APPNOTE, 4.3.
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
  ZipReader(std::string_view bytes, const ZipReadText& text)
      : bytes_(bytes), text_(text), where_(text.where) {}

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
    throw Error(fmt::format("{}: is not a zip archive{}", where_, text_.no_archive));
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

  // Reads the directory entry at `at` and moves `at` past it.
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
    XRUN_CHECK(method == 0 && packed == size, "{}: its member {} is compressed{}", where_,
               member.name, text_.compressed);
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
  const ZipReadText& text_;
  const std::string& where_;
};

template <class T>
void append_value(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The least version of a reader: 2.0, or 4.5 for sizes of 64 bits.
constexpr uint16_t kVersion = 20, kVersion64 = 45;
constexpr uint16_t kNamesAreUtf8 = 1 << 11;
constexpr uint32_t kMidnight1980 =
    0x00210000;  // a fixed time, so that equal members give equal bytes

bool needs_zip64(uint64_t value) { return value >= kIn64; }

uint32_t short_form(uint64_t value) {
  return needs_zip64(value) ? kIn64 : static_cast<uint32_t>(value);
}

// Appends the fields that the header of a member shares with its directory entry, up to the size
// of the name.
void append_shared(std::string& out, const ZipEntry& entry, bool zip64) {
  append_value(out, zip64 ? kVersion64 : kVersion);
  append_value(out, kNamesAreUtf8);
  append_value(out, uint16_t{0});  // stored
  append_value(out, kMidnight1980);
  append_value(out, entry.crc);
  append_value(out, short_form(entry.bytes));
  append_value(out, short_form(entry.bytes));
  append_value(out, static_cast<uint16_t>(entry.name.size()));
}

// The zip64 field of the values that have no short form, "" if all have one.
std::string zip64_field(std::initializer_list<uint64_t> values) {
  std::string inner;
  for (const uint64_t value : values) {
    if (needs_zip64(value)) append_value(inner, value);
  }
  std::string out;
  if (inner.empty()) return out;
  append_value(out, uint16_t{1});
  append_value(out, static_cast<uint16_t>(inner.size()));
  return out + inner;
}

std::string directory_entry(const ZipEntry& entry, uint64_t at) {
  const std::string field = zip64_field({entry.bytes, entry.bytes, at});
  std::string out;
  append_value(out, kDirectoryEntry);
  append_value(out, field.empty() ? kVersion : kVersion64);
  append_shared(out, entry, !field.empty());
  append_value(out, static_cast<uint16_t>(field.size()));
  append_value(out, uint16_t{0});  // comment
  append_value(out, uint16_t{0});  // disk
  append_value(out, uint16_t{0});  // internal attributes
  append_value(out, uint32_t{0});  // external attributes: a plain file
  append_value(out, short_form(at));
  return out + entry.name + field;
}

void append_end64(std::string& out, uint64_t entries, uint64_t bytes, uint64_t begin) {
  const uint64_t at = begin + bytes;
  append_value(out, kEnd64Record);
  append_value(out, kEnd64Bytes - 12);
  append_value(out, kVersion64);
  append_value(out, kVersion64);
  append_value(out, uint64_t{0});  // both disks
  for (const uint64_t value : {entries, entries, bytes, begin}) append_value(out, value);
  append_value(out, kEnd64Locator);
  append_value(out, uint32_t{0});
  append_value(out, at);
  append_value(out, uint32_t{1});
}

}  // namespace

std::vector<ZipMember> read_stored_zip(std::string_view bytes, const ZipReadText& text) {
  return ZipReader(bytes, text).members();
}

uint32_t zip_crc32(std::string_view bytes, uint32_t before) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~before;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

void check_zip_member(const ZipMember& member, const ZipReadText& text) {
  XRUN_CHECK(zip_crc32(member.data) == member.crc, "{}: the checksum of its member {} is wrong{}",
             text.where, member.name, text.wrong_crc);
}

std::string zip_header(const ZipEntry& entry) {
  const std::string field = zip64_field({entry.bytes, entry.bytes});
  std::string out;
  append_value(out, kLocalHeader);
  append_shared(out, entry, !field.empty());
  append_value(out, static_cast<uint16_t>(field.size()));
  return out + entry.name + field;
}

std::string zip_directory(std::span<const ZipEntry> entries) {
  std::string out;
  uint64_t at = 0;
  for (const ZipEntry& entry : entries) {
    out += directory_entry(entry, at);
    at += zip_header(entry).size() + entry.bytes;
  }
  const uint64_t bytes = out.size();
  const bool many = entries.size() >= 0xFFFF;
  if (many || needs_zip64(bytes) || needs_zip64(at)) append_end64(out, entries.size(), bytes, at);
  const auto count = static_cast<uint16_t>(many ? 0xFFFF : entries.size());
  append_value(out, kEndRecord);
  append_value(out, uint32_t{0});  // both disks
  append_value(out, count);
  append_value(out, count);
  append_value(out, short_form(bytes));
  append_value(out, short_form(at));
  append_value(out, uint16_t{0});  // comment
  return out;
}

bool is_plain_zip(std::string_view bytes, const std::vector<ZipMember>& members) {
  std::vector<ZipEntry> entries;
  const auto take = [&](std::string_view wanted) {
    const bool same = bytes.starts_with(wanted);
    if (same) bytes.remove_prefix(wanted.size());
    return same;
  };
  for (const ZipMember& member : members) {
    const ZipEntry& entry =
        entries.emplace_back(ZipEntry{member.name, member.data.size(), member.crc});
    if (!take(zip_header(entry))) return false;
    // The directory may point elsewhere: the data must follow their header.
    if (member.data.size() > bytes.size() || member.data.data() != bytes.data()) return false;
    bytes.remove_prefix(member.data.size());
  }
  return bytes == zip_directory(entries);
}

}  // namespace xrun
