#pragma once
// Paths of the source tree and of the built programs, for tests.

#include <string>

namespace xrun {

// A path in the source tree of the tests, or in the folder of its programs; without an argument the
// folder itself. Only tree.cpp is compiled with these paths, so that a compiler cache serves the
// other test objects in every checkout.
std::string source_path(const std::string& path = {});
std::string binary_path(const std::string& path = {});

}  // namespace xrun
