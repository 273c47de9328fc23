#pragma once

#include <string>

namespace xrun {

// A path in the tree that the tests belong to, or in the folder of its programs; without an argument
// the folder itself. Only tree.cpp is compiled with them, so that every other object of the tests is
// the same in each checkout and a compiler cache serves them all.
std::string source_path(const std::string& path = {});
std::string binary_path(const std::string& path = {});

}  // namespace xrun
