// Gradients, norms and updates of several ranks against one process, bit for bit.

#include "core/train/models/gradient_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/dist/ranks.h"
#include "core/model/incoming_weights.h"
#include "core/train/adamw.h"
#include "tests/core/dist/thread_ranks.h"
#include "tests/core/train/stub_trainable.h"
#include "tests/error_of.h"

namespace xrun::gradient_exchange_test {
namespace {

// Weights of several blocks; "scale" has no gradient in any item, "b.1.x" in some.
const std::vector<TensorShape> kShapes = {
    {"embed", {300, 40}}, {"b.0.w", {400, 400}}, {"b.0.x", {7}},  {"b.1.w", {30, 50}},
    {"b.1.x", {70000}},   {"scale", {5}},        {"head", {2, 3}}};

at::Tensor values(const TensorShape& shape, int64_t seed) {
  int64_t elements = 1;
  for (const int64_t size : shape.shape) elements *= size;
  std::vector<float> out(static_cast<size_t>(elements));
  // Powers of different sizes: another order of a sum has other bits.
  uint64_t x = static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15u + shape.name.size();
  for (float& value : out) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(static_cast<int64_t>(x >> 33) - (1ll << 30)) *
            (x & 1024 ? 1e-9f : 1e-6f);
  }
  return at::tensor(out).view(shape.shape);
}

void add_weights(StubTrainable& trainable) {
  for (const TensorShape& shape : kShapes) {
    const at::Tensor start = values(shape, 1).contiguous();
    const float* data = start.const_data_ptr<float>();
    trainable.add(shape.name, {data, data + start.numel()}, shape.shape);
  }
}

std::shared_ptr<StubTrainable> weights() {
  auto trainable = std::make_shared<StubTrainable>();
  add_weights(*trainable);
  return trainable;
}

// The backward of one item: each weight gets a gradient that depends on the item alone.
void backward(StubTrainable& trainable, int64_t item) {
  at::Tensor loss = at::zeros({});
  for (size_t t = 0; t < kShapes.size(); ++t) {
    if (kShapes[t].name == "scale" || (kShapes[t].name == "b.1.x" && item % 3 != 1)) continue;
    const at::Tensor gradient = values(kShapes[t], 10 + item);
    loss = loss.add(trainable.parameters()[t].master.mul(gradient).sum());
  }
  loss.backward();
}

struct ExchangedStep {
  std::vector<at::Tensor> weights;
  std::vector<double> norms;
  std::string state;
  std::vector<NamedTensor> gradients;  // of the last step
};

AdamWOptions options() {
  AdamWOptions o;
  o.lr = 0.01;
  o.weight_decay = 0.1;
  o.clip = 0.5;
  return o;
}

// Steps of `items` items each, dealt one per rank at a time.
ExchangedStep train(const DistOptions& dist, int64_t steps, int64_t items,
                    bool one_backward = true) {
  const int64_t n = dist.ranks == nullptr ? 1 : dist.ranks->size();
  const int64_t rank = dist.ranks == nullptr ? 0 : dist.ranks->rank();
  const auto trainable = weights();
  AdamW adamw({trainable}, options(), dist);
  ExchangedStep outcome;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t first = 0; first < items; first += n) {
      const int64_t count = std::min(n, items - first);
      adamw.begin_exchange({count, one_backward, first + n >= items});
      if (rank < count) {
        backward(*trainable, step * items + first + rank);
        if (!one_backward) backward(*trainable, 1000 + step * items + first + rank);
      }
      adamw.end_exchange();
    }
    const double norm = adamw.grad_norm().item<double>();
    if (step + 1 == steps) {
      for (const NamedTensor& one : adamw.gradients()) {
        outcome.gradients.push_back({one.name, one.tensor.clone()});
      }
    }
    adamw.update(0.01 * static_cast<double>(step + 1), norm);
    outcome.norms.push_back(norm);
  }
  for (const Parameter& one : trainable->parameters()) {
    EXPECT_FALSE(one.master.grad().defined()) << one.name;
    outcome.weights.push_back(one.master.detach().clone());
  }
  outcome.state = dump_json(adamw.state());
  return outcome;
}

void expect_equal(const ExchangedStep& got, const ExchangedStep& wanted, const std::string& where) {
  EXPECT_EQ(got.norms, wanted.norms) << where;
  EXPECT_EQ(got.state, wanted.state) << where;
  for (size_t t = 0; t < kShapes.size(); ++t) {
    EXPECT_TRUE(at::equal(got.weights[t], wanted.weights[t])) << kShapes[t].name << where;
  }
  ASSERT_EQ(got.gradients.size(), wanted.gradients.size()) << where;
  for (size_t i = 0; i < got.gradients.size(); ++i) {
    EXPECT_EQ(got.gradients[i].name, wanted.gradients[i].name) << where;
    EXPECT_TRUE(at::equal(got.gradients[i].tensor, wanted.gradients[i].tensor)) << where;
  }
}

TEST(GradientExchange, AnyNumberOfRanksAndEveryLevelGiveTheBitsOfOneProcess) {
  const ExchangedStep alone = train({}, 2, 5);
  for (const int64_t n : {1, 2, 4, 7}) {
    for (const int64_t level : {0, 1, 2}) {
      if (n == 4 && level > 0) continue;
      std::mutex mutex;
      on_threads(n, [&](Ranks& ranks) {
        const ExchangedStep outcome = train({&ranks, level, true}, 2, 5);
        const std::lock_guard lock(mutex);
        expect_equal(outcome, alone, fmt::format(" n {} level {} rank {}", n, level, ranks.rank()));
      });
    }
  }
}

TEST(GradientExchange, AnItemOfSeveralBackwardsIsSummedByItself) {
  const ExchangedStep alone = train({}, 2, 3, /*one_backward=*/false);
  for (const int64_t n : {2, 3}) {
    std::mutex mutex;
    on_threads(n, [&](Ranks& ranks) {
      const ExchangedStep outcome = train({&ranks, 1, true}, 2, 3, /*one_backward=*/false);
      const std::lock_guard lock(mutex);
      expect_equal(outcome, alone, fmt::format(" n {}", n));
    });
  }
}

TEST(GradientExchange, InexactSumsAreCloseAndEqualOnAllRanks) {
  const ExchangedStep alone = train({}, 1, 5);
  for (const int64_t n : {2, 3}) {
    std::mutex mutex;
    std::vector<ExchangedStep> outcomes;
    on_threads(n, [&](Ranks& ranks) {
      ExchangedStep outcome = train({&ranks, 2, false}, 1, 5);
      const std::lock_guard lock(mutex);
      outcomes.push_back(std::move(outcome));
    });
    for (const ExchangedStep& outcome : outcomes) {
      expect_equal(outcome, outcomes.front(), " between ranks");
      EXPECT_NEAR(outcome.norms[0], alone.norms[0], 1e-6 * alone.norms[0]);
    }
  }
}

// Reads no weight before it has awaited it, as a model.
class AwaitingTrainable : public StubTrainable {
 public:
  bool await_before_reading(const std::shared_ptr<IncomingWeights>& incoming) override {
    incoming_ = incoming;
    return true;
  }
  IncomingWeights& incoming() { return *incoming_; }

 private:
  std::shared_ptr<IncomingWeights> incoming_;
};

TEST(GradientExchange, UpdatedWeightsArriveWhenTheyAreAwaitedOrTheNextBackwardBegins) {
  const ExchangedStep one = train({}, 1, 2), two = train({}, 2, 2);
  for (const int64_t level : {1, 2}) {
    on_threads(2, [&](Ranks& ranks) {
      const auto trainable = std::make_shared<AwaitingTrainable>();
      add_weights(*trainable);
      const auto has = [&](const ExchangedStep& outcome) {
        bool all = true;
        for (size_t t = 0; t < kShapes.size(); ++t) {
          all = all && at::equal(trainable->parameters()[t].master, outcome.weights[t]);
        }
        return all;
      };
      AdamW adamw({trainable}, options(), {&ranks, level, true});
      for (int64_t step = 0; step < 2; ++step) {
        adamw.begin_exchange({2, true, true});
        backward(*trainable, step * 2 + ranks.rank());
        adamw.end_exchange();
        EXPECT_EQ(has(one), step == 1);
        adamw.update(0.01 * static_cast<double>(step + 1), adamw.grad_norm().item<double>());
        // The other rank's ranges still have the old values.
        EXPECT_FALSE(has(step == 0 ? one : two));
      }
      trainable->incoming().await(at::zeros({2}));  // of no bucket
      EXPECT_FALSE(has(two));
      for (const Parameter& each : trainable->parameters())
        trainable->incoming().await(each.master);
      EXPECT_TRUE(has(two));
    });
  }
}

TEST(GradientExchange, ARankWhoseItemFailsStillEndsTheRound) {
  on_threads(3, [&](Ranks& ranks) {
    const auto trainable = weights();
    AdamW adamw({trainable}, options(), {&ranks, 1, true});
    adamw.begin_exchange({3, true, true});
    if (ranks.rank() != 1) backward(*trainable, ranks.rank());
    adamw.end_exchange();
    EXPECT_GT(adamw.grad_norm().item<double>(), 0);
    adamw.clear_gradients();
    EXPECT_TRUE(adamw.gradients().empty());
  });
}

TEST(GradientExchange, ASecondGradientOfOneBackwardIsRefused) {
  on_threads(2, [&](Ranks& ranks) {
    const auto trainable = weights();
    AdamW adamw({trainable}, options(), {&ranks, 1, true});
    adamw.begin_exchange({2, true, true});
    trainable->parameters()[1].master.sum().backward();
    EXPECT_EQ(message_of<Error>([&] { trainable->parameters()[1].master.sum().backward(); }),
              "b.0.w got a second gradient from one backward, after the first was exchanged");
    adamw.end_exchange();
    adamw.clear_gradients();
  });
}

TEST(GradientExchange, ARankSendsTheGradientsThatOthersOwn) {
  on_threads(4, [&](Ranks& ranks) {
    const auto trainable = weights();
    std::vector<at::Tensor> leaves;
    for (const Parameter& one : trainable->parameters()) leaves.push_back(one.master);
    const FlatIndex index(kShapes);
    const RankRanges ranges(index, 4);
    GradientExchange exchange(index, ranges, leaves, {&ranks, 1, true});
    exchange.begin_exchange({4, true, true});
    backward(*trainable, ranks.rank());
    exchange.end_exchange();
    const int64_t others = 4 * (index.size() - ranges.total(ranks.rank()));
    EXPECT_GE(exchange.sent_bytes(), others);
    EXPECT_LE(exchange.sent_bytes(), others + 4 * 32);  // flags
    exchange.clear();
  });
}

TEST(AdamWRanks, SavedRangesCoverEveryMomentOnceAndRestoreOnAnyNumberOfRanks) {
  using Saved = std::map<std::string, at::Tensor>;
  const auto step = [](AdamW& adamw, StubTrainable& trainable, int64_t rank, int64_t item) {
    adamw.begin_exchange({1, true, true});
    if (rank == 0) backward(trainable, item);
    adamw.end_exchange();
    adamw.update(0.01, adamw.grad_norm().item<double>());
  };
  for (const auto& [n, m] : {std::pair{3, 2}, std::pair{2, 4}, std::pair{4, 1}}) {
    Saved saved;
    Json state;
    std::vector<at::Tensor> halfway, wanted;
    std::mutex mutex;
    on_threads(n, [&](Ranks& ranks) {
      const auto trainable = weights();
      AdamW adamw({trainable}, options(), {&ranks, 1, true});
      step(adamw, *trainable, ranks.rank(), 1);
      const std::lock_guard lock(mutex);
      if (ranks.rank() == 0) {
        state = adamw.state();
        for (const Parameter& one : trainable->parameters()) {
          halfway.push_back(one.master.detach().clone());
        }
      }
      for (const TensorRange& range : adamw.ranges()) {
        at::Tensor& whole = saved[range.name];
        if (!whole.defined()) whole = at::zeros(range.shape);
        whole.view({-1}).narrow(0, range.begin, range.held.numel()).add_(range.held);
      }
    });
    const auto go_on = [&](AdamW& adamw, StubTrainable& trainable, int64_t rank) {
      const at::NoGradGuard no_grad;
      for (size_t t = 0; t < halfway.size(); ++t) {
        trainable.parameters()[t].master.detach().copy_(halfway[t]);
      }
      adamw.restore([&](const std::string& name) { return saved.at(name); }, state);
      const at::AutoGradMode grad(true);
      step(adamw, trainable, rank, 2);
    };
    const auto alone = weights();
    AdamW one({alone}, options());
    go_on(one, *alone, 0);
    on_threads(m, [&](Ranks& ranks) {
      const auto trainable = weights();
      AdamW adamw({trainable}, options(), {&ranks, 2, true});
      go_on(adamw, *trainable, ranks.rank());
      for (size_t t = 0; t < kShapes.size(); ++t) {
        EXPECT_TRUE(at::equal(trainable->parameters()[t].master, alone->parameters()[t].master))
            << n << " to " << m << ": " << kShapes[t].name;
      }
    });
  }
}

}  // namespace
}  // namespace xrun::gradient_exchange_test
