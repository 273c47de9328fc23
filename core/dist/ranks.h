#pragma once
// The processes of one run, called ranks, and the collectives between them.
//
// Every rank makes the same calls in the same order, with the same labels, shapes and dtypes. A
// label names the call in reports of failures ("gradient bucket 3"). Every function throws Error
// that names the rank at fault if a rank died, hangs or made a different call; the other ranks then
// throw as well. Not thread-safe.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/dist/watch/stopped.h"

namespace xrun {

// A collective that has begun. Its tensors must not be read or changed before wait() returns.
class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  virtual void wait() = 0;
};

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int64_t rank() const = 0;  // of this process, from 0
  virtual int64_t size() const = 0;  // processes of the run

  // Returns the strings of all ranks, in rank order. They may differ in length.
  virtual std::vector<std::string> gather(std::string_view label, const std::string& text) = 0;
  // Returns the string of rank `root`; those of the other ranks are ignored.
  virtual std::string broadcast(std::string_view label, const std::string& text, int64_t root) = 0;
  // Fills `tensor` with the bytes of rank `root`'s tensor. Requires contiguous tensors of equal
  // shapes and dtypes.
  virtual void broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) = 0;

  // Begins an all-to-all: rank r's k-th piece of `in` becomes the r-th piece of rank k's `out`.
  //   in, out              [n] contiguous, of one dtype
  //   in_sizes, out_sizes  [size()] elements of each piece; 0 is legal, also for all of them
  virtual std::unique_ptr<PendingCollective> exchange(std::string_view label, const at::Tensor& out,
                                                      const std::vector<int64_t>& out_sizes,
                                                      const at::Tensor& in,
                                                      const std::vector<int64_t>& in_sizes) = 0;
  // Begins an all-gather of pieces of different sizes: `out` becomes every rank's `in`, in rank
  // order. `in` may be this rank's piece of `out`.
  //   out    [sum of sizes] contiguous
  //   in     [sizes[rank()]] of the same dtype
  //   sizes  [size()] elements of each rank's piece; 0 is legal
  virtual std::unique_ptr<PendingCollective> all_gather(std::string_view label,
                                                        const at::Tensor& out,
                                                        const std::vector<int64_t>& sizes,
                                                        const at::Tensor& in) = 0;

  virtual void barrier(std::string_view label) = 0;

  // Called after an error of this rank. Returns true once every rank has an error after the same
  // collectives, so that all may make further ones, such as those of a save. Returns false if
  // another rank waits for this one, has left or is gone, or after 10 s.
  virtual bool fails_together() { return true; }

  // Called after an error of this rank: ends its collectives on devices, so that no copy from a
  // device waits for ranks that will not join them. The contents of their tensors are then
  // undefined.
  virtual void abandon_device_calls() {}

  // Called once, after the error `message` that ends the run of this rank. Ranks that wait for it
  // in a collective, or begin one, throw the error there and then call this too. Returns
  //   kTogether, kApart  every rank has called it, so all may make further collectives, such as
  //                      those of a save
  //   kAlone             a rank is gone, has left or takes longer than 60 s
  // After kApart, collectives that were under way may be done in part: on some ranks they never
  // complete.
  virtual Stopped stop_together(const std::string& /*message*/) {
    return fails_together() ? Stopped::kTogether : Stopped::kAlone;
  }

  // Reports an error of this rank that the others do not know of, and ends them with the exit
  // status. Returns only if this rank must print the error; otherwise rank 0 prints it and this
  // process ends.
  virtual void fail(int /*status*/, const std::string& /*message*/) {}
};

}  // namespace xrun
