// A checkpoint restores the saved bits, names a flipped byte, and stays usable after any failing
// write.

#include "core/run/checkpoint.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file_fault.h"
#include "tests/core/run/toy_run.h"
#include "tests/scratch_folder.h"

namespace xrun::checkpoint_test {
namespace {

struct Toy {
  std::shared_ptr<ToyWeights> weights = std::make_shared<ToyWeights>();
  SavedObjects objects{{"weights", weights}};
};

Json run_json(int64_t step) {
  Json run = Json::object();
  run.set("step", step);
  return run;
}

std::vector<std::string> names_in(const std::filesystem::path& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void save_steps(CheckpointStore& store, Toy& toy, std::initializer_list<int64_t> steps) {
  for (const int64_t step : steps) {
    while (toy.weights->updates() < step) toy.weights->update(toy.weights->updates());
    store.save(step, run_json(step), toy.objects);
  }
}

TEST(Checkpoint, RestoresTheBitsThatWereSaved) {
  const ScratchFolder folder;
  Toy toy;
  CheckpointStore store(folder.path(), 2);
  EXPECT_FALSE(store.load_latest().has_value());
  save_steps(store, toy, {5});
  Toy other;
  CheckpointStore again(folder.path(), 2);
  const auto checkpoint = again.load_latest();
  ASSERT_TRUE(checkpoint.has_value());
  checkpoint->restore(other.objects);
  EXPECT_EQ(checkpoint->step(), 5);
  EXPECT_EQ(checkpoint->run(), run_json(5));
  EXPECT_EQ(other.weights->updates(), 5);
  EXPECT_EQ(other.weights->first(), toy.weights->first());
  EXPECT_EQ(names_in(folder / "step_0000005"),
            (std::vector<std::string>{"manifest.json", "run.json", "weights.json",
                                      "weights.safetensors"}));
}

TEST(Checkpoint, KeepsTheNewestAndForgetsACutHistory) {
  const ScratchFolder folder;
  Toy toy;
  CheckpointStore store(folder.path(), 2);
  save_steps(store, toy, {10, 20, 30});
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{20, 30}));
  std::filesystem::remove_all(folder / "step_0000030");
  CheckpointStore again(folder.path(), 2);
  EXPECT_EQ(again.load_latest()->step(), 20);
  std::filesystem::create_directory(folder / "step_0000040");
  put_text(folder / "step_0000040/manifest.json", "{}");
  again.save(25, run_json(25), toy.objects);
  EXPECT_EQ(again.steps(), (std::vector<int64_t>{20, 25}));
}

// A manifest of another format or step, or one that leaves out an object's files.
TEST(Checkpoint, AManifestThatDoesNotFitIsReportedAsDamage) {
  const std::pair<const char*, const char*> changes[] = {
      {"\"format\":1", "\"format\":2"},
      {"\"step\":3", "\"step\":7"},
      {"\"weights.json\"", "\"others.json\""},
      {"\"weights.safetensors\"", "\"others.safetensors\""},
  };
  for (const auto& [from, to] : changes) {
    const ScratchFolder folder;
    Toy toy;
    CheckpointStore store(folder.path(), 2);
    save_steps(store, toy, {3});
    std::string text = text_of(folder / "step_0000003/manifest.json");
    ASSERT_NE(text.find(from), std::string::npos) << text;
    put_text(folder / "step_0000003/manifest.json",
             text.replace(text.find(from), std::string(from).size(), to));
    const std::string message =
        message_of<Error>([&] { CheckpointStore(folder.path(), 2).load_latest(); });
    EXPECT_NE(message.find("manifest.json: "), std::string::npos) << message;
    EXPECT_NE(message.find("the checkpoint is damaged: remove"), std::string::npos) << message;
  }
}

TEST(Checkpoint, AFolderThatCannotBeExaminedIsAnErrorNotAFolderWithoutCheckpoints) {
  const std::filesystem::path dir(std::string(300, 'n'));  // longer than a file system allows
  EXPECT_EQ(message_of<FileError>([&] { newest_checkpoint(dir); }),
            dir.string() + ": cannot be examined: File name too long");
}

TEST(Checkpoint, IsNotWrittenTwiceForOneStep) {
  const ScratchFolder folder;
  Toy toy;
  CheckpointStore store(folder.path(), 2);
  save_steps(store, toy, {3});
  const auto before = std::filesystem::last_write_time(folder / "step_0000003/manifest.json");
  store.save(3, run_json(99), toy.objects);
  EXPECT_EQ(std::filesystem::last_write_time(folder / "step_0000003/manifest.json"), before);
  EXPECT_EQ(store.load_latest()->run(), run_json(3));
}

TEST(Checkpoint, ADamagedFileIsNamedWithTheFix) {
  const ScratchFolder folder;
  Toy toy;
  CheckpointStore store(folder.path(), 2);
  save_steps(store, toy, {10, 20});
  const auto dir = folder / "step_0000020";
  const std::string way_out =
      "; the checkpoint is damaged: remove " + dir.string() + " to continue from step 10";
  const std::string whole = text_of(dir / "weights.safetensors");
  const auto load = [&] { CheckpointStore(folder.path(), 2).load_latest(); };
  put_text(dir / "weights.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_EQ(message_of<Error>(load), (dir / "weights.safetensors").string() + ": has " +
                                         std::to_string(whole.size() - 1) + " bytes, wanted " +
                                         std::to_string(whole.size()) + way_out);
  std::string flipped = whole;
  flipped.back() ^= 1;
  put_text(dir / "weights.safetensors", flipped);
  EXPECT_NE(message_of<Error>(load).find("weights.safetensors: has checksum "), std::string::npos);
  std::filesystem::remove(dir / "weights.safetensors");
  EXPECT_EQ(message_of<Error>(load),
            (dir / "weights.safetensors").string() + ": is missing" + way_out);
  put_text(dir / "manifest.json", "{\"format\":1,");
  EXPECT_NE(message_of<Error>(load).find("manifest.json:1:"), std::string::npos);
  std::filesystem::remove(dir / "manifest.json");
  EXPECT_NE(message_of<Error>(load).find(way_out), std::string::npos);
  std::filesystem::remove_all(dir);
  EXPECT_EQ(CheckpointStore(folder.path(), 2).load_latest()->step(), 10);
  std::filesystem::remove_all(folder / "step_0000010");
  EXPECT_FALSE(CheckpointStore(folder.path(), 2).load_latest().has_value());
}

TEST(Checkpoint, EveryFlippedByteOfItsFilesIsNamed) {
  const ScratchFolder folder;
  Toy toy;
  CheckpointStore store(folder.path(), 2);
  save_steps(store, toy, {10});
  const auto dir = folder / "step_0000010";
  int files = 0;
  for (const std::string& name : names_in(dir)) {
    if (name == "manifest.json") continue;
    ++files;
    const std::string whole = text_of(dir / name);
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string flipped = whole;
      flipped[i] ^= 1;
      put_text(dir / name, flipped);
      const std::string message =
          message_of<Error>([&] { CheckpointStore(folder.path(), 2).load_latest(); });
      ASSERT_TRUE(message.starts_with((dir / name).string() + ": has checksum ")) << i << message;
    }
    put_text(dir / name, whole);
  }
  EXPECT_EQ(files, 3);  // weights, their state, the run
}

TEST(Checkpoint, EveryFlippedByteOfTheManifestIsDetectedOrHarmless) {
  const ScratchFolder folder;
  Toy toy;
  CheckpointStore store(folder.path(), 2);
  save_steps(store, toy, {10});
  const auto path = folder / "step_0000010/manifest.json";
  const std::string whole = text_of(path);
  int detected = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] ^= 4;
    put_text(path, flipped);
    try {
      Toy other;
      CheckpointStore(folder.path(), 2).load_latest()->restore(other.objects);
      EXPECT_EQ(other.weights->first(), toy.weights->first()) << i;
    } catch (const Error&) {
      ++detected;
    }
  }
  EXPECT_GT(detected, static_cast<int>(whole.size()) / 2);
}

TEST(Checkpoint, ObjectsThatDifferFromTheSavedOnesAreRefused) {
  const ScratchFolder folder;
  Toy toy;
  CheckpointStore store(folder.path(), 2);
  save_steps(store, toy, {1});
  const auto checkpoint = store.load_latest();
  const SavedObjects renamed{{"policy", toy.weights}};
  EXPECT_EQ(message_of<Error>([&] { checkpoint->restore(renamed); }),
            (folder / "step_0000001").string() +
                ": the checkpoint holds weights, the recipe gives its run policy; "
                "give it the same objects under the same names");
  const SavedObjects reserved{{"run", toy.weights}};
  EXPECT_EQ(message_of<Error>([&] { store.save(2, run_json(2), reserved); }),
            "\"run\" cannot name a saved object: use letters, digits and underscores, and neither "
            "\"run\" nor \"manifest\"");
}

// Fails the n-th operation for n = 1, 2, ... until a save succeeds; after each failure the previous
// checkpoint must load with its own bits and no temporary folder may outlive the next start.
void fail_each(const std::string& operation) {
  int64_t n = 1;
  for (; n < 100; ++n) {
    const ScratchFolder folder;
    Toy toy;
    double saved_first = 0;
    bool failed = false;
    {
      CheckpointStore store(folder.path(), 1);
      save_steps(store, toy, {10});
      saved_first = toy.weights->first();
      toy.weights->update(10);
      set_file_fault(operation, n);
      try {
        store.save(11, run_json(11), toy.objects);
      } catch (const Error& error) {
        failed = true;
        EXPECT_NE(std::string(error.what()).find("No space left on device; free some space"),
                  std::string::npos);
      }
      set_file_fault("", 0);
    }
    CheckpointStore store(folder.path(), 1);
    const auto checkpoint = store.load_latest();
    ASSERT_TRUE(checkpoint.has_value()) << operation << " " << n;
    Toy other;
    checkpoint->restore(other.objects);
    const bool is_new = checkpoint->step() == 11;
    EXPECT_EQ(other.weights->first(), is_new ? toy.weights->first() : saved_first);
    for (const std::string& name : names_in(folder.path())) {
      EXPECT_TRUE(name == "latest" || name.starts_with("step_")) << name;
    }
    if (!failed) {
      EXPECT_EQ(checkpoint->step(), 11);
      break;
    }
    // A retry on a disk with room succeeds.
    store.save(12, run_json(12), toy.objects);
    EXPECT_EQ(CheckpointStore(folder.path(), 1).load_latest()->step(), 12);
  }
  EXPECT_GT(n, 1);
  EXPECT_LT(n, 100);
}

TEST(CheckpointFault, EveryFailingWriteLeavesAUsableCheckpoint) { fail_each("write"); }
TEST(CheckpointFault, EveryFailingSyncLeavesAUsableCheckpoint) { fail_each("fsync"); }
TEST(CheckpointFault, EveryFailingRenameLeavesAUsableCheckpoint) { fail_each("rename"); }

}  // namespace
}  // namespace xrun::checkpoint_test
