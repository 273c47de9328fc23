#pragma once
// Whether two runs of one recipe went the same way, and where they part if they did not.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

// One thing that was compared.
struct RunParting {
  std::string what;  // "metrics", "policy", "run.state"
  std::string text;  // "8 lines of 12 metrics, equal", or the first difference
  bool same = true;
};

// Compares the metrics of two run folders (perf/* aside), and, bit for bit, every object and the
// state of their newest checkpoints. `one` and `other` are what messages call the two. Throws Error
// if a folder has no metrics or no checkpoint, or a file cannot be read.
std::vector<RunParting> run_partings(const std::filesystem::path& a, const std::filesystem::path& b,
                                     const std::string& one, const std::string& other);

}  // namespace xrun
