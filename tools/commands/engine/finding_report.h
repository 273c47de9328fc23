#pragma once
// Prints findings to standard output as they arrive, as lines or JSON objects.

#include <string>
#include <vector>

#include "core/console/terminal/console.h"
#include "core/console/terminal/finding.h"

namespace xrun {

class FindingReport {
 public:
  // `subject_columns` is the width of the longest subject.
  FindingReport(bool json, int subject_columns);

  // Shows the current check on a terminal, until the next finding.
  void begin(const std::string& what);
  void add(Finding finding);
  void add(std::vector<Finding> findings);
  // Prints a line unless the output is JSON.
  void say(const std::string& text);
  // Returns the number of findings that are trouble (any_trouble).
  int trouble() const { return trouble_; }
  int size() const { return size_; }

 private:
  bool json_;
  int subject_columns_;
  int trouble_ = 0, size_ = 0;
  Console console_;
};

}  // namespace xrun
