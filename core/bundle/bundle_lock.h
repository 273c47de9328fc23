#pragma once
// The lock of a bundle, its member bundle.json: the SHA-256 of every file that decides the numbers
// of a recipe, the resolved settings, and the metrics of the first steps.
//
// {"format": 1, "recipe": "recipe/dpo.lua", "sets": ["steps=4"], "config": {...}, "origins": {...},
//  "seeds": {"seed": 0}, "members": [FILE], "inputs": [{"kind", "name", "files": [FILE]}],
//  "binary": {"source", "torch", "compiler", "engine", "core"}, "operators": {"log_sigmoid":
//  [schema]}, "run": null | {"machine", "environment", "date", "measured", "steps": [object of
//  metrics.jsonl]}}
// FILE is {"name", "bytes", "sha256"}. A file of an input also has "xxh3" if it is data, and
// "member" if the bundle contains it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace xrun {

constexpr int64_t kBundleFormat = 1;
constexpr const char* kBundleLock = "bundle.json";
// The largest lock that is read: it may be a stranger's, and is parsed as a whole.
constexpr uint64_t kMostLockBytes = uint64_t{64} << 20;

struct LockedFile {
  std::string name;  // of a member, or relative to its input
  uint64_t bytes = 0;
  std::string sha256;
  std::string xxh3 = {};    // the digest in cache keys; "" unless it is data
  std::string member = {};  // the member with these bytes; "": not in the bundle

  bool operator==(const LockedFile&) const = default;
};

enum class InputKind { kData, kModel, kTemplate, kProjection };
const char* input_kind_name(InputKind kind);  // "data", "model", ...

// A file or folder that the recipe opens by a name.
struct LockedInput {
  InputKind kind = InputKind::kData;
  std::string name;               // as the recipe spells it
  std::vector<LockedFile> files;  // several for a glob or a folder, sorted by name

  bool operator==(const LockedInput&) const = default;
  uint64_t bytes() const;
  // Returns true if the bundle has every file.
  bool bundled() const;
};

// The run whose first steps are in a bundle.
struct LockedRun {
  Json machine;      // {"device", "threads"}
  Json environment;  // {"cpu"}
  std::string date;  // the date that templates saw; "": none asked for it
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

// Returns the lock as JSON; equal locks give equal bytes.
std::string lock_text(const BundleLock& lock);

// Throws UsageError if a newer xrun wrote the lock; Error, with the field, for an unknown or
// missing field, a wrong type, a string that is not a digest and a name that leaves the bundle.
// `where` names the bundle in messages.
BundleLock parse_lock(std::string_view text, const std::string& where);

// Returns "" for a name that a member can have: relative, without "..", control characters,
// backslashes, empty or over-long parts. Else returns its fault: "is not UTF-8".
std::string bad_member_name(std::string_view name);

}  // namespace xrun
