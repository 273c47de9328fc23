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

  // Returns every rank's text, in rank order. Texts may differ in length.
  virtual std::vector<std::string> gather(std::string_view label, const std::string& text) = 0;
  // Returns the text of rank `root`; the texts of the others are ignored.
  virtual std::string broadcast(std::string_view label, const std::string& text, int64_t root) = 0;
  // Fills `tensor` with the bytes of rank `root`'s. Contiguous, equal shapes and dtypes.
  virtual void broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) = 0;

  // Begins an all-to-all: rank r's k-th piece of `in` becomes the r-th piece of rank k's `out`.
  //   in, out              [n] contiguous, of one dtype
  //   in_sizes, out_sizes  [size()] elements of each piece; 0 is legal, also for all of them
  virtual std::unique_ptr<PendingCollective> exchange(std::string_view label, const at::Tensor& out,
                                                      const std::vector<int64_t>& out_sizes,
                                                      const at::Tensor& in,
                                                      const std::vector<int64_t>& in_sizes) = 0;
  // Begins an all-gather of pieces of different sizes: `out` becomes every rank's `in`, in rank
  // order. `in` may be its own piece of `out`.
  //   out    [sum of sizes] contiguous; in [sizes[rank()]], of the same dtype
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

  // Ends this rank's collectives on devices, whose tensors then hold anything: after an error of
  // this rank, so that nothing it copies from a device waits for ranks that will not join them.
  virtual void abandon_device_calls() {}

  // Called once, after the error `message` that ends the run of this rank. Ranks that wait for it
  // in a collective, or begin one, throw the error there and come here too. Returns kTogether or
  // kApart once every rank has, so that all may make further collectives, such as those of a save;
  // kAlone if one is gone, has left or takes longer than 60 s. After kApart what a rank began with
  // the others may be half done: collectives that are under way are never complete on some ranks.
  virtual Stopped stop_together(const std::string& /*message*/) {
    return fails_together() ? Stopped::kTogether : Stopped::kAlone;
  }

  // Reports an error of this rank that the others do not know of, and ends them too with the exit
  // status. Returns only on the rank that must print the error; elsewhere rank 0 prints it and the
  // process ends here.
  virtual void fail(int /*status*/, const std::string& /*message*/) {}
};

}  // namespace xrun
