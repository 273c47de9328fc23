// Inputs that fuzzing found stay harmless: all of tests/data/fuzz runs through its targets.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "core/base/file.h"
#include "tests/tree.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun::fuzz_corpus_test {
namespace {

const std::filesystem::path kCorpora = std::filesystem::path(source_path("tests/data/fuzz"));

class FuzzCorpus : public testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzCorpus, EndsNormallyOnEveryInput) {
  size_t inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpora / GetParam().name)) {
    ++inputs;
    EXPECT_NO_THROW(GetParam().run(read_file(entry.path()))) << entry.path();
  }
  EXPECT_GT(inputs, 0u);
  EXPECT_NO_THROW(GetParam().run(""));
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzCorpus, testing::ValuesIn(kFuzzTargets),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FuzzCorpora, EachBelongsToATarget) {
  std::set<std::string> targets, folders;
  for (const FuzzTarget& target : kFuzzTargets) targets.insert(target.name);
  for (const auto& entry : std::filesystem::directory_iterator(kCorpora)) {
    folders.insert(entry.path().filename());
  }
  EXPECT_EQ(folders, targets);
}

}  // namespace
}  // namespace xrun::fuzz_corpus_test
