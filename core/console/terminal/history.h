#pragma once
// Inputs of this session and earlier ones, in a file that several processes may append to.
//
// A line an input; inside it "\n" stands for a line end and "\\" for a backslash.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

class History {
 public:
  History() = default;  // of this session alone
  // Reads the newest inputs of a file, which may be missing or hold any bytes: what is no text is
  // left out, controls vanish. Never throws; a file that cannot be used is said by problem().
  explicit History(std::filesystem::path file);

  const std::vector<std::string>& inputs() const { return inputs_; }  // oldest first
  // Keeps an input, in the file too. Blank ones, repetitions of the newest, and those that begin
  // with a space are not kept.
  void add(std::string_view input);
  // The newest input before index `from` that contains (or with `at_beginning` begins with) a text,
  // or the oldest after it with find_newer.
  std::optional<size_t> find_older(size_t from, std::string_view text, bool at_beginning) const;
  std::optional<size_t> find_newer(size_t from, std::string_view text, bool at_beginning) const;
  // Why nothing is kept on disk; "" if it is.
  const std::string& problem() const { return problem_; }

 private:
  void read_file();
  void append(const std::string& line);

  std::filesystem::path file_;
  std::vector<std::string> inputs_;
  std::string problem_;
};

// $XDG_STATE_HOME/xrun/history, or ~/.local/state/xrun/history; "" if neither is known.
std::filesystem::path history_file();

}  // namespace xrun
