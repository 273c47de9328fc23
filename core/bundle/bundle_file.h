#pragma once
// A bundle, FILE.xrb: one ZIP archive of stored members, the lock first, then files by name. A
// stranger may have made it, so nothing in it is trusted before it is checked.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mapped_file.h"
#include "core/bundle/bundle_lock.h"

namespace xrun {

constexpr const char* kBundleEnding = ".xrb";

// Returns true if a command line's file is a bundle by its name.
bool is_bundle_name(std::string_view name);

// An opened bundle. Its members view the mapped file, or the caller's bytes.
class Bundle {
 public:
  // Opens a file and checks its structure: the layout of the archive, the names of its members, the
  // lock, and that the members are those of the lock with their sizes. text, extract and verify
  // compare digests. Throws
  //   UsageError  there is no such file, or a newer xrun made it
  //   Error       anything else that is wrong with it
  static Bundle open(const std::filesystem::path& path);
  // As open, for bytes that outlive the bundle; `where` names them in messages.
  static Bundle of_bytes(std::string_view bytes, const std::string& where);

  const BundleLock& lock() const { return lock_; }
  const std::string& where() const { return where_; }
  // SHA-256 of the lock, which has the digests of all members.
  const std::string& digest() const { return digest_; }

  // Returns a member's bytes, valid while the bundle lives. Throws Error if there is no such member
  // or its digest differs from the lock's.
  std::string_view text(const std::string& member) const;
  // Compares the digest of every member. Throws Error that names the first damaged one.
  void verify() const;
  // Returns the folder below `root`, named by digest(), that has the members; makes it if it is
  // missing or a member in it differs from the lock. A kill at any time leaves no incomplete
  // folder.
  std::filesystem::path extract(const std::filesystem::path& root) const;

 private:
  Bundle() = default;
  void read(std::string_view bytes);

  MappedFile file_;
  std::string where_, digest_;
  BundleLock lock_;
  std::map<std::string, std::string_view, std::less<>> data_;
};

// ---- writing

// A member to write: its name and the source of its bytes.
struct BundleMember {
  std::string name;
  std::filesystem::path file;  // read when the bundle is written; "": the bytes are `text`
  std::string text;
};

// Sets lock.members from `members`, and writes the bundle. Equal members and locks give equal
// bytes. `path` appears whole or not at all. Throws Error if a file cannot be read or changes
// meanwhile, or if `path` cannot be written.
void write_bundle(BundleLock lock, std::vector<BundleMember> members,
                  const std::filesystem::path& path);

// Returns the bytes of a small bundle, for tests.
std::string bundle_bytes(BundleLock lock, std::vector<BundleMember> members);

}  // namespace xrun
