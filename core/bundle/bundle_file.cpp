// bundle.json, then the members in ascending order of their names, laid out as zip_archive.h writes
// them and in no other way: an archive with gaps, links, comments or two views of one member is
// refused before a member is read.

#include "core/bundle/bundle_file.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/interrupt.h"
#include "core/base/mapped_file.h"
#include "core/base/sha256.h"
#include "core/base/zip_archive.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// Bounds the list of members of a stranger's archive.
constexpr size_t kMostMembers = 100'000;
// Ctrl-C is answered after each piece: large weights take seconds to hash.
constexpr size_t kPieceBytes = size_t{1} << 20;

void check_names(const std::vector<ZipMember>& members, const std::string& where) {
  XRUN_CHECK(!members.empty() && members[0].name == kBundleLock,
             "{}: is a ZIP archive but not a bundle: its first member is not {}", where,
             kBundleLock);
  XRUN_CHECK(members.size() <= kMostMembers, "{}: has {} members, at most {} are allowed", where,
             members.size(), kMostMembers);
  XRUN_CHECK(members[0].data.size() <= kMostLockBytes, "{}: its lock has {} bytes, the limit is {}",
             where, members[0].data.size(), kMostLockBytes);
  for (size_t i = 1; i < members.size(); ++i) {
    const std::string& name = members[i].name;
    const std::string wrong = bad_member_name(name);
    XRUN_CHECK(wrong.empty(), "{}: the name of its member {} {}", where, name, wrong);
    XRUN_CHECK(name != kBundleLock && (i == 1 || members[i - 1].name != name),
               "{}: its member {} occurs twice", where, name);
    XRUN_CHECK(i == 1 || members[i - 1].name < name, "{}: its member {} is out of order", where,
               name);
    // "a" and "a/b" cannot both be files. They need not be neighbours: "a-b" sorts between them.
    for (size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      const std::string folder = name.substr(0, slash);
      const auto at = std::lower_bound(
          members.begin() + 1, members.end(), folder,
          [](const ZipMember& member, const std::string& wanted) { return member.name < wanted; });
      XRUN_CHECK(at == members.end() || at->name != folder,
                 "{}: its member {} is a file and a folder", where, folder);
    }
  }
}

// Every member is in the lock with its size, and every member of the lock is here.
void check_against_lock(const std::vector<ZipMember>& members, const BundleLock& lock,
                        const std::string& where) {
  size_t i = 1;
  for (const LockedFile& locked : lock.members) {
    XRUN_CHECK(i < members.size() && members[i].name <= locked.name,
               "{}: its member {} is missing: the lock names it", where, locked.name);
    XRUN_CHECK(members[i].name == locked.name, "{}: its member {} is not in the lock", where,
               members[i].name);
    XRUN_CHECK(members[i].data.size() == locked.bytes,
               "{}: its member {} has {} bytes, the lock says {}", where, locked.name,
               members[i].data.size(), locked.bytes);
    ++i;
  }
  XRUN_CHECK(i == members.size(), "{}: its member {} is not in the lock", where, members[i].name);
}

// Hashes in pieces, so that a signal stops it.
std::string digest_of(std::string_view bytes) {
  Sha256 hash;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kPieceBytes, bytes.size()))) {
    hash.bytes(bytes.substr(0, kPieceBytes));
    check_interrupt();
  }
  return hash.hex();
}

void check_digest(const LockedFile& locked, const std::string& digest, const std::string& where) {
  XRUN_CHECK(digest == locked.sha256,
             "{}: its member {} has the SHA-256 {}, the lock says {}: the bundle is damaged or was "
             "changed; fetch it again",
             where, locked.name, digest, locked.sha256);
}

// ---- writing

// Calls `piece` for the bytes of a member in order.
void each_piece(const BundleMember& member, const std::function<void(std::string_view)>& piece) {
  if (member.file.empty()) return piece(member.text);
  const MappedFile file(member.file);
  std::string_view bytes = file.bytes();
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kPieceBytes, bytes.size()))) {
    piece(bytes.substr(0, kPieceBytes));
    file.forget();
    check_interrupt();
  }
}

// The header of a stored member precedes its data and has its size and CRC, so every member is read
// twice: to measure it and to write it.
struct MeasuredMember {
  ZipEntry entry;
  std::string sha256;
};

MeasuredMember measure(const BundleMember& member) {
  MeasuredMember measured;
  measured.entry.name = member.name;
  Sha256 hash;
  each_piece(member, [&](std::string_view piece) {
    measured.entry.bytes += piece.size();
    measured.entry.crc = zip_crc32(piece, measured.entry.crc);
    hash.bytes(piece);
  });
  measured.sha256 = hash.hex();
  return measured;
}

void put_bundle(BundleLock lock, std::vector<BundleMember> members,
                const std::function<void(std::string_view)>& put) {
  // A fixed order, so that two bundles of the same files have the same bytes.
  std::sort(members.begin(), members.end(),
            [](const BundleMember& a, const BundleMember& b) { return a.name < b.name; });
  std::vector<MeasuredMember> measured;
  for (const BundleMember& member : members) measured.push_back(measure(member));
  // Replaces whatever the caller had in it.
  lock.members.clear();
  for (const MeasuredMember& one : measured) {
    lock.members.push_back(
        {.name = one.entry.name, .bytes = one.entry.bytes, .sha256 = one.sha256});
  }
  // The lock comes first in the file but is made last: it has the digests of all other members.
  const BundleMember first{.name = kBundleLock, .file = {}, .text = lock_text(lock)};
  std::vector<ZipEntry> entries = {measure(first).entry};
  put(zip_header(entries[0]));
  put(first.text);
  for (size_t i = 0; i < members.size(); ++i) {
    const ZipEntry& entry = entries.emplace_back(measured[i].entry);
    put(zip_header(entry));
    // The file may have changed since it was measured.
    uint64_t bytes = 0;
    uint32_t crc = 0;
    each_piece(members[i], [&](std::string_view piece) {
      bytes += piece.size();
      crc = zip_crc32(piece, crc);
      put(piece);
    });
    XRUN_CHECK(bytes == entry.bytes && crc == entry.crc, "{}: changed while it was bundled",
               members[i].file.string());
  }
  put(zip_directory(entries));
}

}  // namespace

bool is_bundle_name(std::string_view name) { return name.ends_with(kBundleEnding); }

Bundle Bundle::open(const fs::path& path) {
  Bundle bundle;
  bundle.where_ = path.string();
  if (!path_exists(path)) {
    throw UsageError(fmt::format("{}: there is no such bundle; xrun bundle RECIPE.lua makes one",
                                 path.string()));
  }
  XRUN_CHECK(is_file(path), "{}: is not a regular file", path.string());
  bundle.file_ = MappedFile(path);
  refuse_lfs_pointer(bundle.file_.bytes(), path.string());
  bundle.read(bundle.file_.bytes());
  return bundle;
}

Bundle Bundle::of_bytes(std::string_view bytes, const std::string& where) {
  Bundle bundle;
  bundle.where_ = where;
  bundle.read(bytes);
  return bundle;
}

void Bundle::read(std::string_view bytes) {
  const ZipReadText text{.where = where_,
                         .no_archive = ", so it is not a bundle or it was cut off; fetch it again",
                         .compressed = ", which xrun bundle never does"};
  const std::vector<ZipMember> members = read_stored_zip(bytes, text);
  check_names(members, where_);
  XRUN_CHECK(
      is_plain_zip(bytes, members),
      "{}: is not laid out as xrun bundle writes it: it has links, comments, gaps, or members "
      "that overlap or that disagree with its directory; do not trust it",
      where_);
  // The lock alone is checked now. Members are hashed when they are used: text(), verify(),
  // extract().
  check_zip_member(members[0], text);
  lock_ = parse_lock(members[0].data, where_);
  // The lock has the digests of all members, so its digest names the whole bundle.
  digest_ = sha256_hex(members[0].data);
  check_against_lock(members, lock_, where_);
  for (const ZipMember& member : members) data_.emplace(member.name, member.data);
}

std::string_view Bundle::text(const std::string& member) const {
  for (const LockedFile& locked : lock_.members) {
    if (locked.name != member) continue;
    const std::string_view bytes = data_.find(member)->second;
    check_digest(locked, digest_of(bytes), where_);
    return bytes;
  }
  throw Error(fmt::format("{}: has no member {}", where_, member));
}

void Bundle::verify() const {
  for (const LockedFile& locked : lock_.members) {
    check_digest(locked, digest_of(data_.find(locked.name)->second), where_);
    file_.forget();
  }
}

fs::path Bundle::extract(const fs::path& root) const {
  // 128 bits, as in the names of all folders of the store: enough that no two bundles share one.
  const fs::path folder = root / digest_.substr(0, 32);
  std::error_code ignored;
  const auto same = [&](const LockedFile& locked) {
    std::error_code none;
    const fs::path file = folder / locked.name;
    return is_file(file) && fs::file_size(file, none) == locked.bytes &&
           sha256_file(file) == locked.sha256;
  };
  // Hashed at each run: a recipe that was edited there must not run as the bundle.
  const auto is_whole = [&] {
    return std::all_of(lock_.members.begin(), lock_.members.end(), same);
  };
  if (path_exists(folder / kBundleLock)) {
    if (is_whole()) return folder;
    fs::remove_all(folder, ignored);  // someone changed it
  }
  verify();
  make_dirs(root);
  // The process id, since two processes may extract one bundle at once.
  const fs::path made = folder.string() + fmt::format(".tmp{}", ::getpid());
  fs::remove_all(made, ignored);
  try {
    for (const auto& [name, bytes] : data_) {
      make_dirs((made / name).parent_path());
      // Not synced: the next run finds a file that a crash tore by its digest and extracts again.
      FileWriter writer(made / name);
      writer.write(bytes);
      writer.close();
      check_interrupt();
    }
    // One rename: a folder of the store is whole, or it does not exist.
    fs::rename(made, folder, ignored);
  } catch (...) {
    fs::remove_all(made, ignored);
    throw;
  }
  // The rename fails if another process was first, or if the changed folder could not be removed.
  if (ignored) {
    std::error_code none;
    fs::remove_all(made, none);
    XRUN_CHECK(path_exists(folder / kBundleLock) && is_whole(), "{}: cannot be made: {}",
               folder.string(), ignored.message());
  }
  return folder;
}

void write_bundle(BundleLock lock, std::vector<BundleMember> members, const fs::path& path) {
  const fs::path made = path.string() + fmt::format(".tmp{}", ::getpid());
  std::error_code ignored;
  try {
    FileWriter writer(made);
    put_bundle(std::move(lock), std::move(members),
               [&](std::string_view piece) { writer.write(piece); });
    writer.sync();
    writer.close();
    rename_durable(made, path);
  } catch (const FileError& error) {
    fs::remove(made, ignored);
    throw_named(error, made, path);
  } catch (...) {
    fs::remove(made, ignored);
    throw;
  }
}

std::string bundle_bytes(BundleLock lock, std::vector<BundleMember> members) {
  std::string out;
  put_bundle(std::move(lock), std::move(members), [&](std::string_view piece) { out += piece; });
  return out;
}

}  // namespace xrun
