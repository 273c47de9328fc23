// The memory of a build is bounded, however long its file and its lines are: rows of 100 MB go
// through a parser, a tokenizer and, as conversations, a template.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/data/cache/cache_reader.h"
#include "core/data/rows/row_encoder.h"
#include "tests/core/data/cache/killed_process.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::cache_memory_test {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMegabyte = 1'000'000;
constexpr int kShortRows = 500;  // after each long one

// A million bytes of words, each `seed` in another order.
std::string words(uint64_t seed) {
  constexpr const char* kWords[] = {"the ",  "river ", "of ",      "small ", "things, ", "turned ",
                                    "and ",  "over ",  "against ", "them. ", "Nobody ",  "asked ",
                                    "which", " 1984 ", "été ",     "way"};
  std::string text;
  while (text.size() < kMegabyte) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    text += kWords[seed >> 60];
  }
  return text;
}

// Long rows of one text among others, each with short ones after it.
struct MeasuredBuild {
  const char* name;
  RowKind kind;
  int long_rows, megabytes;
  const char *before, *after;  // surround a row's text
  int workers = 2;
  bool long_rows_stay = true;
  const char* tokenizer = nullptr;  // below tests/data; nullptr: one that takes texts in parts
};

constexpr const char* kText = R"({"text":")";
constexpr const char* kQuestion = R"({"messages":[{"role":"user","content":")";
constexpr const char* kAnswer = R"("},{"role":"assistant","content":"yes"}]})";
constexpr const char* kPair = R"({"chosen":"yes","rejected":"no","prompt":")";

const MeasuredBuild kBuilds[] = {
    {"OfOneText", RowKind::kText, 1, 100, kText, "\"}", 1},
    {"OfThreeTexts", RowKind::kText, 3, 100, kText, "\"}"},
    {"OfTextsThatAreTakenWhole", RowKind::kText, 3, 12, kText, "\"}", 2, true,
     "tokenizers/regexes"},
    {"OfTextsOfALibrary", RowKind::kText, 6, 2, kText, "\"}", 2, true, "tokenizers/sp_unigram"},
    {"OfTextsThatNobodyTakesWhole", RowKind::kText, 3, 50, kText, "\"}", 2, false,
     "tokenizers/regexes"},
    {"OfColumnsThatNobodyReads", RowKind::kText, 3, 100, R"({"text":"a word","other":")", "\"}"},
    {"OfTheLongestConversations", RowKind::kChat, 2, 25, kQuestion, kAnswer},
    {"OfTheLongestPairs", RowKind::kPreference, 2, 25, kPair, "\"}"},
    {"OfConversationsThatAreRefused", RowKind::kChat, 3, 100, kQuestion, kAnswer, 2, false},
};

CacheSource source_in(const fs::path& root, int workers) {
  CacheSource source = toy_source((root / "rows.jsonl").string(), kShardBytes);
  source.block_bytes = 1 << 20;
  source.workers = workers;
  return source;
}

void build_in(const fs::path& root, const MeasuredBuild& build) {
  const char* data = std::getenv("XRUN_TEST_DATA");
  fs::path folder = source_path("tests/data/tiny_tokenizer");
  if (data != nullptr) folder = fs::path(data) / "tokenizers/gpt2";
  if (build.tokenizer != nullptr) folder = fs::path(source_path("tests/data")) / build.tokenizer;
  const auto tokenizer = Tokenizer::load(folder);
  tokenizer->finish_loading();
  RowEncoding encoding;
  encoding.kind = build.kind;
  encoding.settings.over_length = OverLength::kDrop;  // some rows are beyond every limit
  encoding.tokenizer = tokenizer.get();
  if (uses_template(build.kind)) {
    encoding.chat_template = resolve_template(*tokenizer, "chatml").chat_template;
  }
  CacheSource source = source_in(root, build.workers);
  source.schema = row_schema(encoding);
  build_toys(root, source, [&] { return make_row_encoder(encoding); });
}

// The process that is measured: nothing of other tests is in its memory.
TEST(CacheMemoryChild, DISABLED_Builds) {
  const char* folder = std::getenv("XRUN_MEMORY_FOLDER");
  const char* name = std::getenv("XRUN_MEMORY_BUILD");
  ASSERT_TRUE(folder != nullptr && name != nullptr);
  for (const MeasuredBuild& build : kBuilds) {
    if (std::string_view(build.name) == name) return build_in(folder, build);
  }
  FAIL() << name;
}

class CacheMemory : public testing::TestWithParam<MeasuredBuild> {
 protected:
  // On a disk: memory is what is measured.
  CacheMemory() {
    std::string folder = fs::temp_directory_path() / "xrun_memory_XXXXXX";
    XRUN_CHECK(::mkdtemp(folder.data()) != nullptr, "{}: cannot be made", folder);
    root_ = folder;
  }
  ~CacheMemory() override { fs::remove_all(root_); }

  void write_rows(const MeasuredBuild& build) const {
    std::ofstream file(root_ / "rows.jsonl", std::ios::binary);
    for (int row = 0; row < build.long_rows; ++row) {
      file << build.before;
      for (int i = 0; i < build.megabytes; ++i)
        file << words(static_cast<uint64_t>(row * 1000 + i));
      file << build.after << "\n";
      for (int i = 0; i < kShortRows; ++i) {
        file << build.before << "a short row" << build.after << "\n";
      }
    }
  }

  // The largest resident size, in MB, of a child process that builds a cache.
  double peak_of_build(const MeasuredBuild& build) const {
    const pid_t pid = fork_process();
    if (pid == 0) {
      ::setenv("XRUN_MEMORY_FOLDER", root_.c_str(), 1);
      ::setenv("XRUN_MEMORY_BUILD", build.name, 1);
      ::execl("/proc/self/exe", "test_data", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
              "--gtest_filter=CacheMemoryChild.DISABLED_Builds", nullptr);
      ::_exit(127);
    }
    int status = 0;
    rusage usage{};
    ::wait4(pid, &status, 0, &usage);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return static_cast<double>(usage.ru_maxrss) / 1000;
  }

  fs::path root_;
};

TEST_P(CacheMemory, SlowABuildTakesLessThanAGigabyte) {
  const MeasuredBuild& build = GetParam();
  write_rows(build);
  const double peak = peak_of_build(build);
  RecordProperty("peak_mb", static_cast<int>(peak));
  EXPECT_LT(peak, 1000);
  EXPECT_EQ(CacheReader(toy_dir(root_, source_in(root_, build.workers))).rows(),
            build.long_rows * (kShortRows + (build.long_rows_stay ? 1 : 0)));
}

INSTANTIATE_TEST_SUITE_P(Every, CacheMemory, testing::ValuesIn(kBuilds),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace xrun::cache_memory_test
