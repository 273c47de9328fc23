// The table of reasons has every reason of the sources, and the documentation repeats it.

#include "core/data/rows/drop_reasons.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "core/base/file.h"
#include "tests/tree.h"

namespace xrun::drop_reasons_test {
namespace {

TEST(DropReasons, EveryRefusalHasAReasonOfTheTable) {
  const std::regex refusal("Refusal\\(\\s*\"([a-z_]+)\"");
  size_t found = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(source_path("core/data"))) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = read_file(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), refusal), end; at != end;
         ++at, ++found) {
      const std::string name = (*at)[1];
      EXPECT_TRUE(std::any_of(drop_reasons().begin(), drop_reasons().end(),
                              [&](const DropReason& reason) { return reason.name == name; }))
          << name << " in " << entry.path();
    }
  }
  EXPECT_GT(found, drop_reasons().size());
}

TEST(DropReasons, TheDocumentationHasThemInOrder) {
  std::string table;
  for (const DropReason& reason : drop_reasons()) {
    table += "| `" + std::string(reason.name) + "` | " + std::string(reason.rows) + " | " +
             std::string(reason.meaning) + " |\n";
  }
  EXPECT_TRUE(read_file(source_path("docs/drop-reasons.md")).ends_with("|---|---|---|\n" + table))
      << table;
}

}  // namespace
}  // namespace xrun::drop_reasons_test
