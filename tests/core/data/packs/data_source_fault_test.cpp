// Kills, and failing reads and writes, of a source as recipes open it: a tokenizer, a compiled
// template, a transform. A later opening always ends with the bytes of an undisturbed
// one.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include "core/base/file_fault.h"
#include "core/data/packs/data_source.h"
#include "tests/core/data/cache/killed_process.h"
#include "tests/core/data/rows/toy_rows.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::data_source_fault_test {
namespace {

namespace fs = std::filesystem;

// Leaves out every fifth row and adds a word to the first turn of the others.
class ShortenedRows : public RowTransformSource {
 public:
  std::unique_ptr<RowTransform> make() const override {
    class Transform : public RowTransform {
     public:
      explicit Transform(const ShortenedRows& rows) : rows_(rows) {}
      bool apply(Json& row, const std::string&) override {
        const int64_t number = row.at("number").as_int();
        if (rows_.may_die_ && number >= rows_.deadly_from_) rows_.die();
        if (number % 5 == 0) return false;
        Json& content = *row.find("messages")->as_array()[0].find("content");
        content = content.as_string() + " indeed";
        return true;
      }

     private:
      const ShortenedRows& rows_;
    };
    return std::make_unique<Transform>(*this);
  }
  const std::string& source() const override { return source_; }

  // Rows from `row` on kill the process as soon as it may die.
  void die_at(int64_t row, std::function<bool()> may_die) {
    deadly_from_ = row;
    may_die_ = std::move(may_die);
  }

 private:
  [[noreturn]] void die() const {
    while (!may_die_()) std::this_thread::sleep_for(Microseconds(500));
    ::raise(SIGKILL);
    std::abort();
  }

  std::string source_ = "shortened";
  int64_t deadly_from_ = 0;
  std::function<bool()> may_die_;
};

// Conversations; every ninth row has no answer, every eleventh is not JSON.
std::string conversations(int begin, int end) {
  std::string bytes;
  for (int i = begin; i < end; ++i) {
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
    source.path = folder_.write("rows.jsonl", conversations(0, 500));
    source.transform = rows_;
    source.keep = {"number"};
    options_.sources.push_back(source);
    options_.shard_bytes = 1 << 13;
    options_.workers = 2;
  }

  fs::path open(const fs::path& root) const {
    DataOptions options = options_;
    options.cache_root = root;
    return open_data_source(options, 0, *tokenizer_, template_)->dir();
  }

  // Opens in a child process that is killed after a while. Returns whether it had ended.
  bool open_and_kill(const fs::path& root, Microseconds patience) const {
    return run_and_kill(patience, [&] { open(root); });
  }

  // Returns the committed rows of the source that is built below `root`; 0 before the first shard,
  // all once it is finished.
  int64_t committed_rows(const fs::path& root) const {
    if (!fs::exists(root / "data")) return 0;
    for (const auto& entry : fs::directory_iterator(root / "data")) {
      for (const char* name : {kManifestName, kPartialName}) {
        if (fs::exists(entry.path() / name)) return read_manifest(entry.path(), name).ledger.rows;
      }
    }
    return 0;
  }

  ScratchFolder folder_;
  const std::shared_ptr<ShortenedRows> rows_ = std::make_shared<ShortenedRows>();
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> template_;
  DataOptions options_;
};

// No clock decides here: a row of a later file kills its process once more rows are committed than
// before, and the rows of the files before it are more than a shard.
TEST_F(DataSourceFaults, AKilledOpeningContinuesAfterItsLastShard) {
  for (int file = 0; file < 5; ++file) {
    folder_.write(fmt::format("part_{}.jsonl", file), conversations(200 * file, 200 * (file + 1)));
  }
  options_.sources[0].path = (folder_.path() / "part_*.jsonl").string();
  const auto clean = files_of(open(folder_.path() / "whole"));
  const fs::path root = folder_.path() / "killed";
  int64_t committed = 0;
  for (const int64_t row : {400, 800}) {
    EXPECT_FALSE(ended_by_itself(start_process([&] {
      rows_->die_at(row, [&] { return committed_rows(root) > committed; });
      open(root);
    })));
    const int64_t now = committed_rows(root);
    EXPECT_GT(now, committed);
    EXPECT_LE(now, row);
    committed = now;
  }
  EXPECT_EQ(files_of(open(root)), clean);
}

// From the first millisecond on, later from kill to kill, until an opening gets through.
TEST_F(DataSourceFaults, SlowKillsChangeNoByte) {
  const auto clean = files_of(open(folder_.path() / "whole"));
  ASSERT_GT(clean.size(), 6u);  // segments, a manifest and the bad rows
  const fs::path root = folder_.path() / "killed";
  std::mt19937 random(7);
  for (int round = 0; round < 6; ++round) {
    fs::remove_all(root);
    int64_t committed = 0;
    int kills = 0;
    for (Microseconds patience(500 + random() % 2000); !open_and_kill(root, patience);
         patience = patience * 4 / 3) {
      ++kills;
      const int64_t now = committed_rows(root);
      ASSERT_GE(now, committed);
      committed = now;
    }
    EXPECT_GT(kills, 0);
    ASSERT_EQ(files_of(open(root)), clean);
  }
}

// The n-th operation fails, for every n until an opening needs fewer.
TEST_F(DataSourceFaults, SlowFailingOperationsChangeNoByte) {
  const auto clean = files_of(open(folder_.path() / "whole"));
  for (const std::string operation : {"read", "write", "fsync", "rename"}) {
    const std::string wanted =
        operation == "read" ? "rows.jsonl: cannot be read" : "free some space";
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
}  // namespace xrun::data_source_fault_test
