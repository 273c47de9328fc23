#pragma once
// A copy on the host of what a run saves: to go back one step.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/run/checkpoint.h"

namespace xrun {

// Tensors and states of objects as they were at keep(). Not thread-safe.
class KeptState {
 public:
  // What a copy of the objects takes now.
  static int64_t bytes_of(const SavedObjects& objects);

  bool empty() const { return kept_.empty(); }
  int64_t bytes() const;  // that the copy holds
  // Copies; the memory of a copy before is used again. Holds nothing if it throws.
  void keep(const SavedObjects& objects);
  // Gives each object what it held at keep(): the same bits from there on. Throws Error if the
  // objects have other names, before it has touched any.
  void restore(const SavedObjects& objects) const;
  void forget() { kept_.clear(); }

 private:
  struct One {
    std::map<std::string, at::Tensor> tensors;  // on the host
    Json state;
  };
  std::map<std::string, One> kept_;
};

}  // namespace xrun
