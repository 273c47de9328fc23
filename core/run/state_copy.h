#pragma once
// A copy of the saved objects in host memory, for rollback.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/run/checkpoint.h"

namespace xrun {

// Tensors and states of objects at the time of keep(). Not thread-safe.
class StateCopy {
 public:
  // Returns the bytes that a copy of the objects would take now.
  static int64_t bytes_of(const SavedObjects& objects);

  bool empty() const { return copies_.empty(); }
  int64_t bytes() const;  // of the copy
  // Copies the objects into the memory of the previous copy. If it throws, the copy is empty.
  void keep(const SavedObjects& objects);
  // Restores each object to the same bits. Throws Error before any change if the objects have other
  // names.
  void restore(const SavedObjects& objects) const;
  void forget() { copies_.clear(); }

 private:
  struct ObjectCopy {
    std::map<std::string, at::Tensor> tensors;  // on the host
    Json state;
  };
  std::map<std::string, ObjectCopy> copies_;
};

}  // namespace xrun
