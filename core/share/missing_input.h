#pragma once
// The message on an input that was not found: where it was looked for, and what was there.

#include <filesystem>
#include <string>
#include <vector>

#include "core/bundle/bundle_lock.h"
#include "core/share/input_search.h"

namespace xrun {

// Files compared with the locked ones, from worst to best.
enum class InputMatch { kAbsent, kOther, kRefused, kLocked };

// As the message says it.
const char* match_text(InputMatch match);

// The files of an input that the bundle does not have.
std::vector<const LockedFile*> wanted_files(const LockedInput& input);

// The best find below a path: the files in the order of wanted_files.
struct NearFiles {
  InputMatch match = InputMatch::kAbsent;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> others = {};  // locked names of the files that are not the locked ones
};

// Collects the locations where a missing input was looked for.
class MissingInput {
 public:
  // The input outlives it.
  explicit MissingInput(const LockedInput& input) : input_(input) {}

  void add(const std::string& location, const NearFiles& near);
  void add(const std::string& location, InputMatch match,
           const std::vector<std::filesystem::path>& files);
  void add_line(const std::string& location, const std::string& what);

  // Sets `missing`, `allow` and `file`.
  void write(FoundInput& out) const;

 private:
  const LockedInput& input_;
  std::string looked_, lacking_;
  std::vector<std::string> allow_;
};

}  // namespace xrun
