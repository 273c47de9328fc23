#pragma once
// ZIP archives whose members are stored as they are, uncompressed: read from any bytes, and written
// so that equal members give equal bytes. torch.save and bundles use them.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

struct ZipMember {
  std::string name;
  std::string_view data;
  uint32_t crc = 0;  // as the archive's directory has it
};

// Error wording for one kind of archive: the prefix of every message, and the endings of three.
struct ZipReadText {
  std::string where;  // the file
  std::string no_archive = "";
  std::string compressed = "";
  std::string wrong_crc = ", so the file is damaged";
};

// Reads the directory of an archive; the members view `bytes`. Throws Error if a record or a member
// is not within the file, or a member is compressed or encrypted. Does not read the data:
// check_zip_member does.
std::vector<ZipMember> read_stored_zip(std::string_view bytes, const ZipReadText& text);

// Throws Error unless the data have the checksum of the directory.
void check_zip_member(const ZipMember& member, const ZipReadText& text);

// The CRC-32 of zip archives, over several pieces: crc = zip_crc32(piece, crc).
uint32_t zip_crc32(std::string_view bytes, uint32_t before = 0);

// ---- writing

struct ZipEntry {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

// Returns the bytes before the data of a member.
std::string zip_header(const ZipEntry& entry);

// Returns the bytes after the data of the last member. Requires that the members follow each other
// from the beginning of the file.
std::string zip_directory(std::span<const ZipEntry> entries);

// Returns true if the archive is exactly zip_header, data, zip_header, data, ..., zip_directory:
// nothing before, between or after the members, no links, no headers that contradict the directory.
bool is_plain_zip(std::string_view bytes, const std::vector<ZipMember>& members);

}  // namespace xrun
