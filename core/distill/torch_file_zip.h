#pragma once
// The members of a zip archive that stores its data uncompressed, as torch.save writes it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

struct ZipMember {
  std::string name;
  std::string_view data;
  uint32_t crc = 0;  // as the archive's directory has it
};

// Reads the directory of an archive; the members view `bytes`. Throws Error that starts with
// `where` if a record or a member is not within the file, is compressed or is encrypted. The data
// are not read: check_zip_member does that.
std::vector<ZipMember> read_stored_zip(std::string_view bytes, const std::string& where);

// Throws Error that starts with `where` unless the data have the checksum of the directory.
void check_zip_member(const ZipMember& member, const std::string& where);

// Returns the CRC-32 of zip archives.
uint32_t zip_crc32(std::string_view bytes);

}  // namespace xrun
