// Kills, and failing reads and writes, of a source as recipes open it: a tokenizer, a compiled
// template, a transform. Whatever happens, a later opening ends with the bytes of an undisturbed
// one.

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "core/data/data_source.h"
#include "tests/core/data/killed_process.h"
#include "tests/core/data/scratch_folder.h"
#include "tests/core/data/toy_rows.h"
#include "tests/tree.h"

namespace xrun {
namespace {

namespace fs = std::filesystem;

// Leaves out every fifth row and adds a word to the first turn of the others.
class ShortenedRows : public RowTransformSource {
 public:
  std::unique_ptr<RowTransform> make() const override {
    class Transform : public RowTransform {
     public:
      bool apply(Json& row, const std::string&) override {
        if (row.at("number").as_int() % 5 == 0) return false;
        Json& content = *row.find("messages")->as_array()[0].find("content");
        content = content.as_string() + " indeed";
        return true;
      }
    };
    return std::make_unique<Transform>();
  }
  const std::string& source() const override { return source_; }

 private:
  std::string source_ = "shortened";
};

// Conversations; every ninth row has no answer, every eleventh is no JSON.
std::string conversations(int n) {
  std::string bytes;
  for (int i = 0; i < n; ++i) {
    const std::string word = hash_hex(std::to_string(i));
    bytes +=
        fmt::format(R"({{"number":{},"messages":[{{"role":"user","content":"{} ?"}})", i, word);
    if (i % 9 != 4) {
      bytes += fmt::format(R"(,{{"role":"assistant","content":"{} <|im_end|> 漢"}})",
                           word.substr(0, static_cast<size_t>(i % 30)) + "a");
    }
    bytes += i % 11 == 7 ? "]\n" : "]}\n";
  }
  return bytes;
}

class DataSourceFaults : public testing::Test {
 protected:
  DataSourceFaults() {
    tokenizer_ = Tokenizer::load(source_path("tests/data/tiny_tokenizer"));
    template_ = resolve_template(*tokenizer_, "chatml").chat_template;
    options_.kind = RowKind::kChat;
    DataSource source;
    source.path = folder_.write("rows.jsonl", conversations(500));
    source.transform = std::make_shared<ShortenedRows>();
    source.keep = {"number"};
    options_.sources.push_back(source);
    options_.segment_bytes = 1 << 13;
    options_.workers = 2;
  }

  fs::path open(const fs::path& root) const {
    DataOptions options = options_;
    options.cache_root = root;
    return open_data_source(options, 0, *tokenizer_, template_)->dir();
  }

  // Opens in a process of its own, which is killed after a while. Returns whether it had ended.
  bool open_and_kill(const fs::path& root, Microseconds patience) const {
    return run_and_kill(patience, [&] { open(root); });
  }

  ScratchFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> template_;
  DataOptions options_;
};

TEST_F(DataSourceFaults, SlowKillsChangeNoByte) {
  const auto start = std::chrono::steady_clock::now();
  const fs::path whole = open(folder_.path() / "whole");
  const auto time =
      std::chrono::duration_cast<Microseconds>(std::chrono::steady_clock::now() - start);
  const auto clean = files_of(whole);
  ASSERT_GT(clean.size(), 6u);  // segments, a manifest and the bad rows
  const fs::path root = folder_.path() / "killed";
  const fs::path dir = root / "data" / whole.filename();
  std::mt19937 random(7);
  int kills = 0, resumed = 0;
  // On a busy machine a build may end before the kill, or never come to its first segment.
  for (int round = 0; round < 200 && (kills < 6 || resumed < 1); ++round) {
    fs::remove_all(root);
    int64_t committed = 0;
    while (!open_and_kill(root, time * (200 + random() % 800) / 1000)) {
      ++kills;
      if (fs::exists(dir / kManifestName) || !fs::exists(dir / kPartialName)) continue;
      const int64_t now = read_manifest(dir, kPartialName).ledger.rows;
      ASSERT_GE(now, committed);
      resumed += committed > 0 && now > committed;
      committed = now;
    }
    ASSERT_EQ(open(root), dir);
    ASSERT_EQ(files_of(dir), clean);
  }
  EXPECT_GE(kills, 6);
  EXPECT_GE(resumed, 1);
}

// The n-th operation fails, for every n until an opening needs fewer.
TEST_F(DataSourceFaults, FailingOperationsChangeNoByte) {
  const auto clean = files_of(open(folder_.path() / "whole"));
  for (const std::string operation : {"read", "write", "fsync", "rename"}) {
    const std::string wanted =
        operation == "read" ? "rows.jsonl: cannot be read" : "free some space and run again";
    bool failed = true;
    for (int64_t n = 1; failed; ++n) {
      const fs::path root = folder_.path() / (operation + std::to_string(n));
      set_file_fault(operation, n);
      const std::string message = error_of([&] { open(root); });
      set_file_fault("", 0);
      failed = !message.empty();
      EXPECT_EQ(message.find(wanted) != std::string::npos, failed) << message;
      ASSERT_EQ(files_of(open(root)), clean) << operation << " " << n;
      fs::remove_all(root);
      ASSERT_LT(n, 100);
    }
  }
}

}  // namespace
}  // namespace xrun
