// Several ranks on the pretended device. Each is a process of its own, since autograd has one
// thread per device and process: it runs this program with the one test that is its part.

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/base/file.h"
#include "core/run/checkpoint.h"
#include "core/run/run.h"
#include "tests/core/dist/joined_ranks.h"
#include "tests/core/run/toy_run.h"
#include "tests/core/train/fetching.h"
#include "tests/device/device_train.h"
#include "tests/device/pretend_collectives.h"
#include "tests/scratch_folder.h"

namespace xrun::device_ranks_test {
namespace {

// Rank 1 of 3 fails while rank 0 stands in a collective of the device and rank 2 in none.
TEST(DeviceRanks, AStreamEndsThoughARankWithAnErrorNeverJoins) {
  pretend_device();
  const int64_t aborted = aborted_groups();
  std::atomic<bool> fails = false;
  const std::vector<std::string> errors = run_ranks(3, [&](Ranks& ranks) {
    const int64_t me = ranks.rank();
    const auto gather = [&](const char* label) {
      const at::Tensor out = at::zeros({3}, pretend_device());
      ranks.all_gather(label, out, {1, 1, 1}, at::full({1}, static_cast<float>(me), out.options()))
          ->wait();
      return out.cpu();
    };
    const at::Tensor all = gather("weights");
    EXPECT_TRUE(at::equal(all, at::arange(3, at::kFloat))) << all;
    ranks.barrier("every stream is free");
    std::string error = "no luck";
    if (me == 0) {
      // Rank 1 fails once this stream waits.
      EXPECT_TRUE(std::isnan(gather("gradients")[2].item<float>()));
      error = error_of([&] { ranks.barrier("metrics"); });
    }
    while (me == 1 && waiting_streams() == 0) std::this_thread::yield();
    if (me == 1) fails = true;
    while (!fails) std::this_thread::yield();
    if (me == 2) error = error_of([&] { ranks.barrier("metrics"); });
    if (me != 1) {
      EXPECT_EQ(error.substr(0, error.find('\n')), "rank 1 of 3: before step 0: no luck");
    }
    EXPECT_EQ(ranks.stop_together(error), Stopped::kApart);
    EXPECT_TRUE(at::equal(gather("weights again"), all));
    EXPECT_TRUE(ranks.fails_together());
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(aborted_groups(), aborted + 3);
}

// Returns losses and norms of DPO steps [first, end), in micro-batches of two pairs.
std::string steps(const Trained& t, int64_t first, int64_t end) {
  std::string text;
  for (int64_t step = first; step < end; ++step) {
    StepOptions with;
    with.ranks = t.adamw->dist().ranks;
    const auto batch = t.batch(step, "", static_cast<uint64_t>(step));
    const Metrics metrics = train_step({{batch.get(), t.objective()}}, t.adamw.get(), with);
    text += fmt::format("{} {}\n", value(metrics, "loss"), value(metrics, "grad_norm"));
  }
  return text;
}

class RanksOfProcesses : public DeviceTrain {
 protected:
  Trained open_ranged(const DistOptions& dist) const {
    PolicyOptions options;
    options.dist = dist;
    options.device = device_;
    return open_trained(folder(), options);
  }

  // Runs the disabled test `part` in `size` processes, and returns the text that each has told.
  std::vector<std::string> run(int64_t size, const std::string& part, int64_t level) {
    const int port = free_port();
    std::vector<pid_t> ranks;
    for (int64_t r = 0; r < size; ++r) {
      const std::vector<std::string> text = {
          "/proc/self/exe", "--gtest_also_run_disabled_tests",
          "--gtest_filter=RanksOfProcesses.DISABLED_" + part,
          fmt::format("XRUN_TEST_RANK={} {} {} {}", r, size, port, level),
          fmt::format("XRUN_TEST_FOLDER={}", folder_.path().string())};
      std::vector<char*> arguments, environment;
      for (size_t i = 0; i < 3; ++i) arguments.push_back(const_cast<char*>(text[i].c_str()));
      for (size_t i = 3; i < 5; ++i) environment.push_back(const_cast<char*>(text[i].c_str()));
      for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
      arguments.push_back(nullptr);
      environment.push_back(nullptr);
      pid_t child = 0;
      EXPECT_EQ(::posix_spawn(&child, text[0].c_str(), nullptr, nullptr, arguments.data(),
                              environment.data()),
                0);
      ranks.push_back(child);
    }
    std::vector<std::string> told;
    for (int64_t r = 0; r < size; ++r) {
      int status = 0;
      ::waitpid(ranks[static_cast<size_t>(r)], &status, 0);
      EXPECT_EQ(status, 0) << "rank " << r;
      told.push_back(read_file(folder_.path() / fmt::format("told_{}", r)));
    }
    return told;
  }

  // In such a process: joins the others.
  void SetUp() override {
    const char* const rank = std::getenv("XRUN_TEST_RANK");
    if (rank == nullptr) return;
    int64_t number = 0, size = 0;
    int port = 0;
    std::istringstream(rank) >> number >> size >> port >> level_;
    JoinOptions options;
    ranks_ = join_ranks(env_of(number, size, port), options);
  }
  std::filesystem::path root() const { return std::getenv("XRUN_TEST_FOLDER"); }
  std::filesystem::path folder() const {
    return ranks_ == nullptr ? folder_.path() / "model" : root() / "model";
  }
  void tell(const std::string& text) const {
    std::ofstream(root() / fmt::format("told_{}", ranks_->rank())) << text;
  }

  int64_t level_ = 0;
  std::unique_ptr<Ranks> ranks_;
};

TEST_F(RanksOfProcesses, DISABLED_Train) {
  const Fetching fetching(ranks_.get());
  const Trained t = open_ranged(fetching.dist(level_));
  tell(steps(t, 0, 3) + t.policy->digest());
}

TEST_F(RanksOfProcesses, SlowHaveTheLossesOfOneProcessAtEveryLevel) {
  std::filesystem::rename(folder_.model(), folder());
  const std::string wanted = steps(open_ranged({}), 0, 3);
  std::string first;
  for (const int64_t level : {0, 1, 2, 3}) {
    for (const std::string& told : run(2, "Train", level)) {
      if (first.empty()) first = told;
      EXPECT_EQ(told, first) << "level " << level;
    }
  }
  std::istringstream got(first), one(wanted);
  for (double a = 0, b = 0; one >> b;) {
    got >> a;
    EXPECT_NEAR(a, b, 1e-5 * std::fabs(b));
  }
}

// After two steps rank 1 has an error, while rank 0 exchanges the gradients of a third.
TEST_F(RanksOfProcesses, DISABLED_Fail) {
  auto fetching = std::make_unique<Fetching>(ranks_.get());
  const Trained t = open_ranged(fetching->dist(level_));
  RunSettings settings;
  settings.save_every = 0;
  settings.ranks = fetching->all.get();
  RunDirOptions options;
  options.dir = root() / fmt::format("run_{}", level_);
  options.ranks = settings.ranks;
  xrun::Run run(RunDir::open(toy_identity(), options), settings,
                {{"policy", t.policy}, {"adamw", t.adamw}});
  run.begin_phase({4, Json::object()}, Json());
  for (int64_t step = 0; step < 2; ++step) {
    run.begin_body(Json());
    steps(t, step, step + 1);
    run.mark_updated();
  }
  run.begin_body(Json());
  std::string error = "dpo.lua:24: oops";
  if (ranks_->rank() == 0) error = error_of([&] { steps(t, 2, 3); });
  run.save_after_error(Json(), error);
  tell(fmt::format("{}\n{}", error.substr(0, error.find('\n')), t.policy->digest()));
}

TEST_F(RanksOfProcesses, SlowSaveTheLastUpdateAfterAnErrorOfOne) {
  std::filesystem::rename(folder_.model(), folder());
  for (const int64_t level : {1, 2, 3}) {
    const auto told = run(2, "Fail", level);
    EXPECT_EQ(told[0].substr(0, told[0].find('\n')),
              "rank 1 of 2: before step 0: dpo.lua:24: oops");
    CheckpointStore store(folder_.path() / fmt::format("run_{}/checkpoints", level), 2);
    const auto saved = store.load_latest();
    ASSERT_TRUE(saved) << level;
    EXPECT_EQ(saved->step(), 2);
    const Trained t = open_ranged({});
    saved->restore({{"policy", t.policy}, {"adamw", t.adamw}});
    EXPECT_EQ(told[0].substr(told[0].find('\n') + 1), t.policy->digest()) << level;
    EXPECT_EQ(told[1].substr(told[1].find('\n') + 1), t.policy->digest()) << level;
    std::istringstream rest(steps(t, 2, 3));
    double loss = 0;
    rest >> loss;
    EXPECT_TRUE(std::isfinite(loss) && loss > 0);
  }
}

}  // namespace
}  // namespace xrun::device_ranks_test
