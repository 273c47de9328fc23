// Checkpoints that several ranks write and any number of ranks reads.

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/dist/ranks.h"
#include "core/run/checkpoint.h"
#include "core/train/adamw.h"
#include "tests/core/dist/thread_ranks.h"
#include "tests/core/run/toy_run.h"
#include "tests/core/train/stub_trainable.h"
#include "tests/scratch_folder.h"

namespace xrun::shared_checkpoint_test {
namespace {

// An optimizer whose moments the ranks share, and weights that each of them has whole.
struct Objects {
  explicit Objects(Ranks* ranks, int64_t level = 1) {
    auto trainable = std::make_shared<StubTrainable>();
    trainable->add("a", std::vector<float>(200000, 0.5f), {400, 500});
    trainable->add("b", std::vector<float>(7, 0.25f), {7});
    trainable->add("c", std::vector<float>(90000, -1.f), {90000});
    AdamWOptions options;
    options.lr = 0.01;
    weights = trainable;
    adamw = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{trainable}, options,
                                    DistOptions{ranks, level, true});
    saved = {{"toy", toy}, {"adamw", adamw}};
    rank = ranks == nullptr ? 0 : ranks->rank();
  }
  void update() {
    toy->update(toy->updates());
    adamw->begin_exchange({1, true, true});
    if (rank == 0) {
      at::Tensor loss = at::zeros({});
      for (const Parameter& one : weights->parameters()) {
        const at::Tensor factor = at::arange(one.master.numel()).view(one.master.sizes());
        loss = loss.add(one.master.mul(factor.mul(1e-3)).sum());
      }
      loss.backward();
    }
    adamw->end_exchange();
    adamw->update(0.01, adamw->grad_norm().item<double>());
  }
  std::shared_ptr<StubTrainable> weights;
  std::shared_ptr<ToyWeights> toy = std::make_shared<ToyWeights>(101);
  std::shared_ptr<AdamW> adamw;
  SavedObjects saved;
  int64_t rank;
};

void save(const std::filesystem::path& dir, Ranks* ranks, int64_t level) {
  Objects objects(ranks, level);
  CheckpointStore store(dir, 2, ranks);
  objects.update();
  objects.update();
  store.save(2, Json::object(), objects.saved);
}

TEST(SharedCheckpoint, FilesHaveTheBytesOfOneProcess) {
  const ScratchFolder folder;
  save(folder / "1", nullptr, 1);
  for (const int64_t n : {2, 3, 5}) {
    const auto dir = folder / std::to_string(n);
    on_threads(n, [&](Ranks& ranks) { save(dir, &ranks, n % 3); });
    for (const char* name : {"toy.safetensors", "toy.json", "adamw.safetensors", "adamw.json"}) {
      EXPECT_TRUE(read_file(dir / "step_0000002" / name) ==
                  read_file(folder / "1/step_0000002" / name))
          << n << " " << name;
    }
  }
}

TEST(SharedCheckpoint, AnyNumberOfRanksReadsIt) {
  const ScratchFolder folder;
  on_threads(3, [&](Ranks& ranks) { save(folder.path(), &ranks, 1); });
  const auto moments = [](const Objects& objects) {
    std::vector<at::Tensor> out;
    for (const NamedTensor& one : objects.adamw->tensors()) out.push_back(one.tensor.clone());
    return out;
  };
  Objects alone(nullptr);
  CheckpointStore(folder.path(), 2).load_latest()->restore(alone.saved);
  const std::vector<at::Tensor> wanted = moments(alone);
  ASSERT_EQ(wanted.size(), 6u);
  EXPECT_EQ(alone.toy->updates(), 2);
  for (const int64_t m : {2, 4}) {
    on_threads(m, [&](Ranks& ranks) {
      Objects objects(&ranks);
      CheckpointStore(folder.path(), 2, &ranks).load_latest()->restore(objects.saved);
      const std::vector<TensorRange> ranges = objects.adamw->ranges();
      ASSERT_EQ(ranges.size(), wanted.size());
      for (size_t i = 0; i < ranges.size(); ++i) {
        EXPECT_TRUE(at::equal(ranges[i].held, wanted[i].reshape({-1}).narrow(
                                                  0, ranges[i].begin, ranges[i].held.numel())));
      }
      EXPECT_EQ(objects.toy->first(), alone.toy->first());
    });
  }
}

TEST(SharedCheckpoint, ADamagedRangeIsFoundOnEveryRankAndNamesItsWriter) {
  const ScratchFolder folder;
  on_threads(3, [&](Ranks& ranks) { save(folder.path(), &ranks, 1); });
  const auto file = folder / "step_0000002/adamw.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  put_text(file, bytes);
  const auto damage = [&](Ranks* ranks) -> std::string {
    try {
      CheckpointStore(folder.path(), 2, ranks).load_latest();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string alone = damage(nullptr);
  EXPECT_NE(alone.find("adamw.safetensors: the bytes that rank "), std::string::npos) << alone;
  EXPECT_NE(alone.find(" of 3 wrote have checksum "), std::string::npos) << alone;
  on_threads(2, [&](Ranks& ranks) { EXPECT_EQ(damage(&ranks), alone); });
}

TEST(SharedCheckpoint, AManifestWhoseSpansLeaveAGapIsDamaged) {
  const ScratchFolder folder;
  on_threads(2, [&](Ranks& ranks) { save(folder.path(), &ranks, 1); });
  const auto path = folder / "step_0000002/manifest.json";
  Json manifest = read_json(path.string());
  const std::string text = read_file(path);
  const size_t at = text.find("\"spans\":[[0,");
  ASSERT_NE(at, std::string::npos);
  put_text(path, text.substr(0, at) + "\"spans\":[[1," + text.substr(at + 12));
  try {
    CheckpointStore(folder.path(), 2).load_latest();
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("a span begins at byte 1, the one before it ends at 0"),
              std::string::npos)
        << message;
  }
}

// Fails on one rank when it is saved.
class FailingWeights : public ToyWeights {
 public:
  explicit FailingWeights(bool fails) : fails_(fails) {}
  std::vector<TensorRange> ranges() const override {
    if (fails_) throw Error("no space left");
    return {};
  }

 private:
  bool fails_;
};

TEST(SharedCheckpoint, AnErrorOnOneRankIsThrownOnAllAndThePreviousOneRemains) {
  const ScratchFolder folder;
  on_threads(3, [&](Ranks& ranks) {
    Objects objects(&ranks);
    CheckpointStore store(folder.path(), 2, &ranks);
    objects.update();
    store.save(1, Json::object(), objects.saved);
    const SavedObjects failing = {{"toy", std::make_shared<FailingWeights>(ranks.rank() == 1)}};
    try {
      store.save(2, Json::object(), failing);
      ADD_FAILURE();
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("no space left"), std::string::npos) << message;
    }
    ranks.barrier("after the failure");
    EXPECT_EQ(store.steps(), std::vector<int64_t>{1});
    EXPECT_FALSE(std::filesystem::exists(folder / ".tmp_step_0000002"));
    ranks.barrier("after the looks");
    EXPECT_EQ(store.load_latest()->step(), 1);
  });
}

}  // namespace
}  // namespace xrun::shared_checkpoint_test
