#pragma once
// Findings on standard output as they come, as lines for people or objects for programs.

#include <string>
#include <vector>

#include "core/console/terminal/console.h"
#include "core/console/terminal/finding.h"

namespace xrun {

class FindingReport {
 public:
  // `subject_columns`: of the longest subject to come.
  FindingReport(bool json, int subject_columns);

  // Shows what is being looked at, on a terminal, until the next finding.
  void begin(const std::string& what);
  void add(Finding finding);
  void add(std::vector<Finding> findings);
  // A line for people alone.
  void say(const std::string& text);
  // How many findings are trouble (any_trouble).
  int trouble() const { return trouble_; }
  int size() const { return size_; }

 private:
  bool json_;
  int subject_columns_;
  int trouble_ = 0, size_ = 0;
  Console console_;
};

}  // namespace xrun
