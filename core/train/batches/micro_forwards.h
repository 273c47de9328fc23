#pragma once
// Caches the forwards of one micro-batch until its step ends: the tokens that models compute for
// it, their hidden states and log-probs.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace xrun {

class HeldPrefix;
class MicroBatch;
class Model;
struct ComputedPack;
struct RouterRecord;
struct TokenRoutes;

// Belongs to a MicroBatch, whose methods of the same names call these and have their contracts
// (micro_batch.h). Not thread-safe.
class MicroForwards {
 public:
  explicit MicroForwards(const MicroBatch& micro);
  ~MicroForwards();

  at::Tensor hidden(Model& model);
  at::Tensor token_logprob(Model& model, int64_t head_mb);
  bool takes_token_logprob(Model& model);
  void set_token_logprob(Model& model, at::Tensor logprob);
  void retain_logprob_gradients();
  std::vector<at::Tensor> logprob_gradients() const;
  const ComputedPack& computed(const Model& model);
  void begin_with(std::shared_ptr<HeldPrefix> prefix);
  void replay(const Model& model, std::vector<std::shared_ptr<const TokenRoutes>> routes);
  std::shared_ptr<const std::vector<at::Tensor>> replayed(const Model& model);
  int64_t take_head_mb(int64_t head_mb, int64_t rows, int64_t vocab);
  void free_hidden();
  const RouterRecord* router(const Model& model) const;
  void clear();  // frees the forwards with their graphs, and the prefix

 private:
  struct MicroForward {
    const Model* model;
    int64_t update_count, times_replaced;  // the model's when it ran
    bool gradient;                         // it has a graph
    at::Tensor hidden;                     // a row per computed token; undefined once freed
    at::Tensor logprob;                    // [R] float32; undefined before the first use
    bool wants_hidden = false;             // hidden() was called: token_logprob does not free it
    std::shared_ptr<RouterRecord> router = {};  // null of a dense model
  };
  // Returns the cached forward of the model in the current gradient mode; runs it if there is none.
  MicroForward& forward(Model& model);
  bool holds_prefix(const Model& model) const;

  const MicroBatch& micro_;
  // The tokens to compute for models with these properties; nearly always one for all models. With
  // a held prefix it is the tree, even where folding the micro-batch alone does not pay.
  struct Computed {
    bool held, replays;
    std::vector<int64_t> classes;  // frequency_classes (computed_pack.h)
    std::unique_ptr<const ComputedPack> pack;
    // The routes that the pack replays; null: the router chooses.
    std::shared_ptr<const std::vector<at::Tensor>> replay = nullptr;
  };
  const Computed& find_computed(const Model& model);
  std::vector<Computed> computed_;
  std::shared_ptr<HeldPrefix> prefix_;                      // null: none is held
  const Model* routed_ = nullptr;                           // takes routes_; null: no model does
  std::vector<std::shared_ptr<const TokenRoutes>> routes_;  // by segment
  std::vector<MicroForward> forwards_;
  int64_t head_mb_taken_ = 0;  // by take_head_mb
};

}  // namespace xrun
