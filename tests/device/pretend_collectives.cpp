// As on a GPU, a call returns at once, and its tensors change when the stream comes to it. The
// pretended stream runs in the host's thread, so a wait for the call is where the stream stands
// until all ranks have joined. An abort lets it go on, with garbage in the tensors.

#include "tests/device/pretend_collectives.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/dist/gloo_backend.h"
#include "core/dist/work_wait.h"

namespace xrun {

namespace {

constexpr std::chrono::milliseconds kPoll{5};
constexpr int64_t kGarbage = 0xff;  // as floats these bytes are NaN

std::atomic<int64_t> aborted_count = 0, waiting_count = 0;

using Aborted = std::shared_ptr<std::atomic<bool>>;

class PretendWork : public c10d::Work {
 public:
  // Gloo writes to `host`, which becomes `device`.
  PretendWork(c10::intrusive_ptr<c10d::Work> work, at::Tensor host, at::Tensor device,
              Aborted aborted)
      : work_(std::move(work)),
        host_(std::move(host)),
        device_(std::move(device)),
        aborted_(std::move(aborted)) {}

  bool wait(std::chrono::milliseconds /*timeout*/) override {
    ++waiting_count;
    while (!*aborted_ && !wait_once(*work_, kPoll)) {
    }
    --waiting_count;
    if (*aborted_) {
      device_.fill_(kGarbage);
    } else {
      device_.copy_(host_);
    }
    return true;
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  at::Tensor host_, device_;
  Aborted aborted_;
};

class PretendBackend : public c10d::Backend {
 public:
  PretendBackend(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size)
      : c10d::Backend(static_cast<int>(rank), static_cast<int>(size)),
        host_(make_gloo_backend(store, rank, size, "127.0.0.1")) {}
  // Gloo would wait for calls that other ranks never join.
  ~PretendBackend() override {
    if (*aborted_) static_cast<void>(host_.release());
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    XRUN_CHECK(!*aborted_, "the group was aborted");
    std::vector<at::Tensor> host = {tensors[0].cpu()};
    auto work = host_->broadcast(host, options);
    return c10::make_intrusive<PretendWork>(std::move(work), host[0], tensors[0], aborted_);
  }

  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& out, at::Tensor& in,
                                               std::vector<int64_t>& out_sizes,
                                               std::vector<int64_t>& in_sizes,
                                               const c10d::AllToAllOptions& options) override {
    XRUN_CHECK(!*aborted_, "the group was aborted");
    at::Tensor host_in = in.cpu(), host_out = at::empty(out.sizes(), at::kByte);
    auto work = host_->alltoall_base(host_out, host_in, out_sizes, in_sizes, options);
    return c10::make_intrusive<PretendWork>(std::move(work), host_out, out, aborted_);
  }

  void abort() override {
    *aborted_ = true;
    ++aborted_count;
  }

 private:
  c10::intrusive_ptr<c10d::Backend> host_;
  Aborted aborted_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

int64_t aborted_groups() { return aborted_count; }

int64_t waiting_streams() { return waiting_count; }

}  // namespace xrun

extern "C" __attribute__((visibility("default"))) void xrun_make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size,
    c10::intrusive_ptr<c10d::Backend>& out) {
  out = c10::make_intrusive<xrun::PretendBackend>(store, rank, size);
}
