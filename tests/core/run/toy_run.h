#pragma once
// A run small enough for tests: one vector that each body updates, and the loop around it.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/run/run.h"
#include "core/train/models/saveable.h"

namespace xrun {

class ToyWeights : public Saveable {
 public:
  explicit ToyWeights(int64_t size = 4) : weight_(at::full({size}, 1.0, at::kFloat)) {}

  void update(int64_t step) {
    weight_.mul_(1.01).add_(0.125 * static_cast<double>(step % 7));
    ++updates_;
  }
  double first() const { return weight_.data_ptr<float>()[0]; }
  int64_t updates() const { return updates_; }

  std::vector<NamedTensor> tensors() const override { return {{"weight", weight_}}; }
  Json state() const override {
    Json state = Json::object();
    state.set("updates", updates_);
    return state;
  }
  void restore(const TensorSource& tensor, const Json& state) override {
    weight_ = tensor("weight").clone();  // the source may reuse its storage
    updates_ = state.at("updates").as_int();
  }

 private:
  at::Tensor weight_;
  int64_t updates_ = 0;
};

inline RunIdentity toy_identity(int64_t epochs = 1) {
  RunIdentity identity;
  identity.recipe_name = "toy";
  identity.recipe_text =
      "local cfg = xrun.config {\n  epochs = " + std::to_string(epochs) + ",\n  beta = 0.1,\n}\n";
  identity.config = parse_json("{\"beta\":0.1}", "config");
  identity.config.set("epochs", epochs);
  identity.origins = Json::object();
  identity.binary = parse_json("{\"version\":\"0.1.0\",\"build\":\"aa\"}", "binary");
  identity.machine = parse_json("{\"threads\":2}", "machine");
  return identity;
}

inline RunDir open_dir(const std::filesystem::path& path, bool resume = false, bool force = false,
                       const RunIdentity& identity = toy_identity()) {
  return RunDir::open(identity, {path, resume, force});
}

struct ToyLoop {
  int64_t size = 4;
  std::vector<int64_t> phases = {10};
  RunSettings settings;
  int64_t updates = 1;  // per body
  bool resume = false;
  // Called in each body at "begin", "between updates" (after each but the last), "next update"
  // (before each but the first), "updated" and "logged".
  std::function<void(const char* event, int64_t step, Run& run)> at;
};

// Runs a toy to its end, as a recipe would, saving after an error; returns run and weights.
struct ToyResult {
  std::unique_ptr<Run> run;
  std::shared_ptr<ToyWeights> weights;
  Json state;
};

inline void toy_body(const ToyLoop& loop, const LoopBody& body, ToyResult& toy) {
  const auto at = [&](const char* event) {
    if (loop.at) loop.at(event, body.step, *toy.run);
  };
  at("begin");
  toy.state.set("bodies", body.step + 1);
  for (int64_t k = 0; k < loop.updates; ++k) {
    toy.run->begin_update();
    if (k > 0) at("next update");
    toy.weights->update(body.step + k);
    toy.run->mark_updated();
    if (k + 1 < loop.updates) at("between updates");
  }
  at("updated");
  const std::vector<std::pair<std::string, double>> metrics = {{"train/loss", toy.weights->first()},
                                                               {"perf/tokens", 7.0}};
  toy.run->log(metrics);
  at("logged");
}

inline void toy_loops(const ToyLoop& loop, ToyResult& toy) {
  const std::vector<std::pair<std::string, double>> evaluation = {{"valid/loss", 0.5}};
  toy.run->log(evaluation);
  for (const int64_t steps : loop.phases) {
    Json data = Json::object();
    data.set("key", "d1");
    toy.run->begin_phase({steps, data}, toy.state);
    while (const auto body = toy.run->begin_body(toy.state)) toy_body(loop, *body, toy);
    toy.run->log(evaluation);
  }
  toy.run->finish(toy.state);
}

inline ToyResult toy_run(const std::filesystem::path& dir, const ToyLoop& loop,
                         const RunIdentity& identity = toy_identity()) {
  ToyResult toy;
  toy.weights = std::make_shared<ToyWeights>(loop.size);
  RunDirOptions options;
  options.dir = dir;
  options.resume = loop.resume;
  options.ranks = loop.settings.ranks;
  toy.run = std::make_unique<Run>(RunDir::open(identity, options), loop.settings,
                                  SavedObjects{{"weights", toy.weights}});
  toy.state = toy.run->state().is_null() ? Json::object() : toy.run->state();
  try {
    toy_loops(loop, toy);
  } catch (...) {
    toy.run->save_after_error(toy.state);
    throw;
  }
  return toy;
}

}  // namespace xrun
