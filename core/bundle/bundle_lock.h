#pragma once
// The lock of a bundle: the SHA-256 of every file that decides the numbers of a recipe, its
// resolved settings, and what its first steps gave. The member bundle.json of a bundle.
//
// {"format": 1, "recipe": "recipe/dpo.lua", "sets": ["steps=4"], "config": {...}, "origins": {...},
//  "seeds": {"seed": 0}, "members": [FILE], "inputs": [{"kind", "name", "files": [FILE]}],
//  "binary": {"source", "torch", "compiler", "engine", "core"}, "operators": {"log_sigmoid":
//  [schema]}, "run": null | {"machine", "environment", "date", "measured", "steps": [object of
//  metrics.jsonl]}}
// FILE is {"name", "bytes", "sha256"}, of an input with "xxh3" (of data) and "member" (if the
// bundle has it) too.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

constexpr int64_t kBundleFormat = 1;
constexpr const char* kBundleLock = "bundle.json";
// The limit for a lock, which may be a stranger's and is parsed as a whole.
constexpr uint64_t kMostLockBytes = uint64_t{64} << 20;

struct LockedFile {
  std::string name;  // of a member, or relative to its input
  uint64_t bytes = 0;
  std::string sha256;
  std::string xxh3 = {};    // of data: the digest in cache keys; else ""
  std::string member = {};  // that has the bytes; "": not in the bundle

  bool operator==(const LockedFile&) const = default;
};

enum class InputKind { kData, kModel, kTemplate, kProjection };
const char* input_kind_name(InputKind kind);  // "data", "model", ...

// A file or folder that the recipe opens by a name.
struct LockedInput {
  InputKind kind = InputKind::kData;
  std::string name;               // as the recipe spells it
  std::vector<LockedFile> files;  // of a glob or a folder by name

  bool operator==(const LockedInput&) const = default;
  uint64_t bytes() const;
  // Returns true if the bundle has every file.
  bool bundled() const;
};

// The run whose first steps a bundle has.
struct LockedRun {
  Json machine;      // {"device", "threads"}
  Json environment;  // {"cpu"}
  std::string date;  // that templates saw; "": none asked
  Json measured;     // choices measured on that machine, or null
  Json::Array steps;
};

struct BundleLock {
  std::string recipe;  // a member
  std::vector<std::string> sets;
  Json config, origins;  // objects
  Json seeds;
  std::vector<LockedFile> members;  // all but the lock, sorted by name
  std::vector<LockedInput> inputs;
  Json binary;
  Json operators;  // name -> list of schemas
  std::optional<LockedRun> run;
};

// The bytes of the member; equal locks give equal bytes.
std::string lock_text(const BundleLock& lock);

// Throws UsageError if a newer xrun wrote it, Error that names the field if it is damaged: unknown
// and missing fields, other types, texts that are not digests, names that leave the bundle.
BundleLock parse_lock(std::string_view text, const std::string& where);

// Returns "" if a name can be a member's: relative, without "..", control characters, backslashes,
// empty or over-long parts; else what is wrong with it.
std::string bad_member_name(std::string_view name);

}  // namespace xrun
