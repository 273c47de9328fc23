#pragma once
// Golden texts of our own output: review a change, then write it with XRUN_WRITE_GOLDEN=1.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/file.h"
#include "tests/tree.h"

namespace xrun {

// Compares text with tests/golden/NAME.
inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = source_path("tests/golden/" + name);
  if (std::getenv("XRUN_WRITE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    write_file_atomic(path, text);
  }
  ASSERT_TRUE(std::filesystem::exists(path)) << path << ": write it with XRUN_WRITE_GOLDEN=1";
  EXPECT_EQ(text, read_file(path)) << path;
}

}  // namespace xrun
