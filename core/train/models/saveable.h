#pragma once
// The interfaces of saved objects (Saveable) and trained weights (Trainable).

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/model/model.h"
#include "core/model/weights/safetensors.h"

namespace xrun {

// Elements of a saved tensor that this rank holds. Over all ranks the ranges cover the tensor once.
struct TensorRange {
  std::string name;
  std::vector<int64_t> shape;  // of the whole tensor
  int64_t begin = 0;           // of the first element held here
  at::Tensor held;             // flat and contiguous; may be empty
};

// Saved tensors by the names that tensors() gave them. Every function throws Error if the tensor is
// absent.
class TensorSource {
 public:
  using Whole = std::function<at::Tensor(const std::string& name)>;
  // Elements [begin, begin + size) of a tensor of this shape, flat; throws if it has another shape.
  using ReadRange = std::function<at::Tensor(const std::string& name, at::IntArrayRef shape,
                                             int64_t begin, int64_t size)>;

  template <typename F>
  requires std::is_invocable_r_v<at::Tensor, F, const std::string&> TensorSource(
      F whole, ReadRange range = {})
      : whole_(std::move(whole)), range_(std::move(range)) {}

  at::Tensor operator()(const std::string& name) const { return whole_(name); }
  at::Tensor range(const std::string& name, at::IntArrayRef shape, int64_t begin,
                   int64_t size) const;

 private:
  Whole whole_;
  ReadRange range_;  // empty: of the whole tensor
};

// Throws Error that names a saved tensor unless it has the shape that the object wants.
void check_saved_shape(const std::string& name, at::IntArrayRef saved, at::IntArrayRef wanted);

// An object whose state a checkpoint holds. Restored from its saved tensors() and state(), it
// computes the same bits as the object that was saved.
class Saveable {
 public:
  using TensorSource = xrun::TensorSource;

  virtual ~Saveable() = default;

  // The tensors to save that every rank has whole, in a fixed order, names unique within this
  // object. They share storage with the object: write them out before the next update.
  virtual std::vector<NamedTensor> tensors() const = 0;

  // The tensors to save that are spread over the ranks of a run, with the same names, order and
  // shapes on every rank. None of them is among tensors().
  virtual std::vector<TensorRange> ranges() const { return {}; }

  // Counts and settings, small enough for a manifest.
  virtual Json state() const = 0;

  // Copies a saved state into the object. Throws Error that names the tensor or field if one is
  // absent or has another shape; the object may then be half restored and must be discarded.
  virtual void restore(const TensorSource& tensor, const Json& state) = 0;

  // For saving after an error that stopped ranks in different collectives (Stopped::kApart). First
  // abandon_shared(), on this rank alone, drops what it has begun with the others. Then
  // share_again(), which is collective, gives every rank what tensors() needs of the others'
  // ranges; it requires equal update counts in state() on all ranks.
  virtual void abandon_shared() {}
  // True while an average replaces the weights, as inside ema:use.
  virtual bool average_in_use() const { return false; }
  virtual void share_again() {}
};

// A set of trained weights. An optimizer is made only of these, so frozen weights have neither
// gradients nor optimizer state.
class Trainable {
 public:
  virtual ~Trainable() = default;

  // The trained masters, fp32 leaves, in a fixed order. Loads the weights at the first call.
  virtual std::vector<Parameter>& parameters() = 0;

  // True once parameters() loads nothing.
  virtual bool loaded() const = 0;

  // Returns elements [begin, begin + size) of the master of this number among parameters(), flat,
  // in its own storage. An object in ranges gives only the range that this rank holds.
  virtual at::Tensor held_master(size_t parameter, int64_t begin, int64_t size) {
    return parameters()[parameter].master.detach().view({-1}).narrow(0, begin, size);
  }
  // Returns true if ranks hold only ranges of this master (core/model/ranged_weights.h). Such
  // masters come before whole ones.
  virtual bool holds_ranges(size_t /*parameter*/) { return false; }

  // Returns true if from now on the object awaits each master before it reads it; false if all
  // values must have arrived when an update ends.
  virtual bool await_before_reading(const std::shared_ptr<IncomingWeights>& /*incoming*/) {
    return false;
  }

  // Called once after each optimizer update; earlier forwards are stale from then on.
  virtual void count_update() = 0;

  // Called after an average replaced the masters' values (true) or these came back (false).
  // Forwards and copies made of them are then stale; the update count stays.
  virtual void weights_averaged(bool /*averaged*/) {}
};

}  // namespace xrun
