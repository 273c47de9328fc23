#pragma once
// What could be typed at a cursor.

#include <cstddef>
#include <string>
#include <vector>

namespace xrun {

// One way to go on: `text` replaces the word before the cursor; `hint` is said beside it ("" none):
// a signature, a type.
struct Completion {
  std::string text, hint;
};

// The ways to go on, sorted, and where in the text the word begins that each of them replaces.
struct Completions {
  size_t begin = 0;
  std::vector<Completion> ways;
};

}  // namespace xrun
