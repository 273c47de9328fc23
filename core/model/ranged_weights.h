#pragma once
// The weights of a model that several processes hold in ranges and fetch when a forward needs them.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace xrun {

// Parameters are numbered as in Model::parameters(); an adapter's factors are never in ranges. Any
// process may fetch at any time; its peers serve it at their next collective. Not thread-safe.
class RangedWeights {
 public:
  virtual ~RangedWeights() = default;

  // The elements of a weight that this process holds: [begin, begin + count) of the flat tensor.
  struct HeldRange {
    int64_t begin = 0, count = 0;
  };
  virtual HeldRange held(size_t parameter) = 0;
  // Stores a copy of this process's range of a master, flat, in any floating-point type. Called
  // while the model loads.
  virtual void put(size_t parameter, const at::Tensor& range) = 0;

  // Returns a whole weight in the type that the model computes in. The weights of one block stay
  // here until a weight of another is fetched, or as long as a caller holds them.
  virtual at::Tensor get(size_t parameter) = 0;
  // Returns a whole master in its own type.
  virtual at::Tensor master(size_t parameter) = 0;

  // The elements of a trained master that this process holds, flat, as a view of its storage.
  // Trained masters are numbered as in Model::trained_parameters().
  struct MasterRange {
    int64_t begin = 0;
    at::Tensor held;
  };
  virtual MasterRange master_range(size_t trained) = 0;

  // Returns the bytes of this process's ranges of all masters.
  virtual int64_t held_bytes() const = 0;

  // Drops fetched weights, after the masters have changed.
  virtual void forget() = 0;
  // While true, every fetched weight stays until forget(), as decoding needs.
  virtual void keep_all(bool keep) = 0;
};

struct RangedParameter {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType master;  // type of the master
  bool trained = false;
};

// Divides a model with these parameters into ranges.
//   compute  type of fetched weights
using MakeRangedWeights = std::function<std::shared_ptr<RangedWeights>(
    const std::vector<RangedParameter>& parameters, at::ScalarType compute, c10::Device device)>;

}  // namespace xrun
