#pragma once
// Stores values of rows beside the token caches, as a run visits the rows: log-probs of a
// reference, alignments, outputs of teachers.
//
// A sidecar is a folder $XRUN_CACHE/columns/<key>/ with key.json, values.bin and a lock. <key> is
// the hash of key.json, so values that were made in another way are in another folder.
// docs/cache-format.md has the bytes.

#include <compare>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/json.h"
#include "core/data/cache/shard.h"

namespace xrun {

// The identity of a sidecar: any difference gives another folder.
struct SidecarKey {
  std::string name;                    // "reference_logprobs"
  ColumnType type = ColumnType::kF32;  // of a value; not kBits
  int64_t width = 1;                   // values of an entry; 0: any number (jagged)
  Json made_by = Json::object();       // what decides a value: digests, settings, versions

  Json document() const;
};

// Numbers of answers a reader of sidecars has given, in documents or segments.
struct SidecarCounts {
  int64_t cached = 0;    // read from a sidecar
  int64_t computed = 0;  // computed, and stored where they have a row
  std::string damage;    // Sidecar::damage() of the last damaged one; "" if none was
};

// The owner of an entry.
struct SidecarEntry {
  int64_t row = 0;
  int32_t side = 0;    // 1 chosen, -1 rejected, 0 neither
  uint64_t stamp = 0;  // hash of the tokens that the values were computed from
  auto operator<=>(const SidecarEntry&) const = default;
};

// Returns cache_root()/columns. Throws Error as that does.
std::filesystem::path sidecar_root();

// An open sidecar: an index in memory, the values on disk. Several processes may append to one. A
// kill loses what was not flushed; a torn or damaged tail is ignored by readers and cut off by the
// next writer. Not thread-safe.
class Sidecar {
 public:
  // Returns true if the values of a key have at least the bytes of one record, which may be torn.
  // Makes no folder.
  static bool exists(const std::filesystem::path& root, const SidecarKey& key);

  // Opens or makes the sidecar of a key. Throws Error if the folder's key.json has another key or a
  // file operation fails, Interrupted while it waits for another process.
  Sidecar(const std::filesystem::path& root, const SidecarKey& key);
  ~Sidecar();
  Sidecar(const Sidecar&) = delete;
  Sidecar& operator=(const Sidecar&) = delete;

  // Returns the values of an entry; nullopt if there are none. Throws Error unless T has the size
  // of the key's type.
  template <typename T>
  std::optional<std::vector<T>> find(const SidecarEntry& entry) const {
    const std::optional<std::string> bytes = find_bytes(entry, sizeof(T));
    if (!bytes) return std::nullopt;
    std::vector<T> values(bytes->size() / sizeof(T));
    std::memcpy(values.data(), bytes->data(), bytes->size());
    return values;
  }
  // Returns true if there are values of a row and side with any stamp.
  bool has(int64_t row, int32_t side) const;

  // Adds the values of an entry, which find() then returns; other processes see them after flush().
  // The first values of an entry stay. Throws Error unless their number is the key's width.
  template <typename T>
  void add(const SidecarEntry& entry, std::span<const T> values) {
    static_assert(std::is_arithmetic_v<T>);
    add_bytes(entry, {reinterpret_cast<const char*>(values.data()), values.size_bytes()},
              sizeof(T));
  }

  // Reads what other processes have appended since. Cheap if that is nothing.
  void refresh();

  // Appends the added entries under the folder's lock and syncs. Does nothing without any.
  void flush();

  size_t size() const { return index_.size() + pending_.size(); }  // entries
  size_t unsaved() const { return pending_.size(); }
  // Returns a sentence for the user if a record was damaged, or torn when this was opened; else "".
  const std::string& damage() const { return damage_; }
  const std::filesystem::path& dir() const { return dir_; }

 private:
  struct Stored {
    uint64_t offset;  // of the values in the file
    uint32_t count;
  };
  std::optional<std::string> find_bytes(const SidecarEntry& entry, size_t value_bytes) const;
  void add_bytes(const SidecarEntry& entry, std::string_view bytes, size_t value_bytes);
  void read_records(void (*poll)());

  std::filesystem::path dir_;
  uint64_t value_bytes_;
  int64_t width_;
  int fd_ = -1;  // of values.bin; -1: there is none yet
  std::map<SidecarEntry, Stored> index_;
  std::map<SidecarEntry, std::string> pending_;
  uint64_t end_ = 0;  // bytes of the file that are read and whole
  std::string damage_;
};

// The state of one sidecar, for `xrun cache verify`.
struct SidecarCheck {
  std::filesystem::path dir;
  std::string name;
  int64_t entries = 0;
  // "" if every byte is whole. A torn tail is not a problem; a last record whose count is damaged
  // and reaches beyond the end of a jagged file looks like one.
  std::string problem;
};
// Reads every record of every sidecar under `root`. Throws Interrupted.
std::vector<SidecarCheck> verify_sidecars(const std::filesystem::path& root);

}  // namespace xrun
