#pragma once
// The inputs of this and earlier sessions, in a file that several processes may append to.
//
// The file has one line per input; "\n" stands for a line end and "\\" for a backslash.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

class History {
 public:
  History() = default;  // in memory only
  // Reads the newest inputs of a file, which may be missing or hold any bytes: ASCII controls are
  // removed, invalid UTF-8 is repaired. Never throws; problem() reports an unusable file.
  explicit History(std::filesystem::path file);

  const std::vector<std::string>& inputs() const { return inputs_; }  // oldest first
  // Adds an input, here and to the file, unless it is blank, begins with a space or repeats the
  // newest one.
  void add(std::string_view input);
  // Returns the index of the newest input before index `from` that contains `text`, or with
  // `at_beginning` begins with it.
  std::optional<size_t> find_older(size_t from, std::string_view text, bool at_beginning) const;
  // Likewise, the oldest input after `from`.
  std::optional<size_t> find_newer(size_t from, std::string_view text, bool at_beginning) const;
  // Returns the reason that inputs are not saved on disk; "" if they are.
  const std::string& problem() const { return problem_; }

 private:
  void load();
  void rewrite(int fd) const;
  void append(const std::string& line);

  std::filesystem::path file_;
  std::vector<std::string> inputs_;
  std::string problem_;
};

// Returns $XDG_STATE_HOME/xrun/history, or ~/.local/state/xrun/history; "" if neither is set.
std::filesystem::path history_file();

}  // namespace xrun
