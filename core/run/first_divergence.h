#pragma once
// The first divergence of two runs of one recipe: metrics, and checkpoints bit for bit.

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

// The result for one object: metrics, a saved object, or run.state.
struct FirstDivergence {
  std::string what;  // "metrics", "policy", "run.state"
  std::string text;  // "8 lines of 12 metrics, equal", or the first difference
  bool same = true;
};

// Compares the metrics of two run folders (perf/* aside), and, bit for bit, every object and the
// state of their newest checkpoints. `one` and `other` are their names in messages. Throws Error
// if a folder has no metrics or no checkpoint, or a file cannot be read.
std::vector<FirstDivergence> first_divergences(const std::filesystem::path& a,
                                               const std::filesystem::path& b,
                                               const std::string& one, const std::string& other);

}  // namespace xrun
