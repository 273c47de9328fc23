#pragma once
// Log-probs without a model: what a dry step gives an objective in place of a forward.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace xrun {

class Batch;
class View;

// While a session has one (Session::stand_in), logprob, token_logprob, head and score of views and
// batches answer from it, and no weights load. Values are a pure function of (seed, source, row id,
// side, token), so that two calls, a view and its batch, and any packing agree. A policy's
// per-token values are leaves with gradient, made once a micro-batch; those of a reference have
// none. Not thread-safe.
class LogprobStandIn {
 public:
  explicit LogprobStandIn(uint64_t seed);

  // log p of each trained token, [R] float32, between -4 and 0. `source` tells models apart: the
  // values of two differ. With `gradient` they are a leaf's.
  at::Tensor token_logprob(const View& view, const std::string& source, bool gradient);
  // Their sum over each segment, [n].
  at::Tensor logprob(const View& view, const std::string& source, bool gradient);
  // The same over a whole batch, without gradient, in batch order.
  at::Tensor token_logprob(Batch& batch, const std::string& source);
  at::Tensor logprob(Batch& batch, const std::string& source);

  // The per-token leaves that were asked for with gradient since the last clear(), in the order of
  // asking: of a check that moves them.
  struct Leaf {
    std::string source;
    const void* micro;  // of which micro-batch
    at::Tensor values;  // [R of the micro-batch] float32
  };
  std::vector<Leaf>& leaves() { return leaves_; }
  void clear() { leaves_.clear(); }

 private:
  at::Tensor values(const View& view, const std::string& source) const;

  uint64_t seed_;
  std::vector<Leaf> leaves_;
};

}  // namespace xrun
