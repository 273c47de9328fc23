#pragma once
// Builds the message on an input that was not found: the locations searched, and what was there.

#include <filesystem>
#include <string>
#include <vector>

#include "core/bundle/bundle_lock.h"
#include "core/share/input_search.h"

namespace xrun {

// Files compared with the locked ones, from worst to best.
enum class InputMatch { kAbsent, kOther, kRefused, kLocked };

// Returns the words of the message for a match.
const char* match_text(InputMatch match);

// Returns the files of an input that the bundle does not have.
std::vector<const LockedFile*> wanted_files(const LockedInput& input);

// The best match for an input below a path.
struct NearFiles {
  InputMatch match = InputMatch::kAbsent;    // the worst of its files
  std::vector<std::filesystem::path> files;  // in the order of wanted_files
  std::vector<std::string> others = {};  // locked names of the files that are not the locked ones
};

// Collects the locations that were searched for a missing input.
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
