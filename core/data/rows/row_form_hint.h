#pragma once
// What is wrong with the form of a file of which no row could be read.

#include <string>

namespace xrun {

// Returns "; the file is one array, ..." with the way out, for a .jsonl file (or .gz, .zst of one)
// that holds one array, objects that run over several lines, or compressed data that is not named
// so; "" for any other, and for one that cannot be read. Throws Interrupted.
std::string row_form_hint(const std::string& path);

}  // namespace xrun
