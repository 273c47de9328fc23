#pragma once
// What is wrong with the form of a file of which no row could be read.

#include <string>

namespace xrun {

// Returns "; the file is one array, ..." with the way out, for a .jsonl file (or .gz, .zst of one)
// that holds one array, or objects that run over several lines; "" for any other.
std::string row_form_hint(const std::string& path);

}  // namespace xrun
