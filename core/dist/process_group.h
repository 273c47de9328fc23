#pragma once
// The ranks of a run over c10d: Gloo for host memory, NCCL for GPUs where the CUDA plug-in is
// loaded. Only core/dist includes this; other folders call join_ranks (join_ranks.h).

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "core/dist/collective_times.h"
#include "core/dist/join_ranks.h"
#include "core/dist/ranks.h"
#include "core/dist/watch/flight_record.h"
#include "core/dist/watch/rank_environment.h"
#include "core/dist/watch/watchdog.h"

namespace xrun {

class ProcessGroup final : public Ranks {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;

  // Connects to the others, through the addresses that `store` exchanges.
  ProcessGroup(const RankEnvironment& env, const JoinOptions& options,
               c10::intrusive_ptr<c10d::Store> store, WatchConnection watched);
  ~ProcessGroup() override;

  int64_t rank() const override { return env_.rank; }
  int64_t size() const override { return env_.world_size; }

  std::vector<std::string> gather(std::string_view label, const std::string& text) override;
  std::string broadcast(std::string_view label, const std::string& text, int64_t root) override;
  void broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) override;
  std::unique_ptr<PendingCollective> exchange(std::string_view label, const at::Tensor& out,
                                              const std::vector<int64_t>& out_sizes,
                                              const at::Tensor& in,
                                              const std::vector<int64_t>& in_sizes) override;
  std::unique_ptr<PendingCollective> all_gather(std::string_view label, const at::Tensor& out,
                                                const std::vector<int64_t>& sizes,
                                                const at::Tensor& in) override;
  void barrier(std::string_view label) override;
  bool fails_together() override { return watchdog_.fails_together(); }
  void abandon_device_calls() override;
  Stopped stop_together(const std::string& message) override;
  void fail(int status, const std::string& message) override { watchdog_.fail(status, message); }

  // Waits for a call that has begun.
  struct StartedCall {
    int64_t number;
    std::string label;
    int64_t bytes;
    bool reconnected = false;  // the ranks had stopped and connected again before it
    bool on_device = false;    // its end orders the stream, and the host does not wait
    CollectiveTimes::Clock::time_point begun = {};
    std::shared_ptr<std::atomic<CollectiveTimes::Clock::rep>> complete = {};  // 0: not yet
  };
  void finish(const StartedCall& call, const std::vector<Work>& works);

 private:
  // Notes a call. With options.check, compares `arguments` over ranks first.
  StartedCall begin(std::string_view label, int64_t bytes, std::string_view arguments);
  void check_arguments(const StartedCall& call, std::string_view arguments);
  void connect();
  void check_verdict() const;
  // Throws the error of another rank that has stopped and will not join this call.
  void check_stops(int64_t number, bool reconnected);
  // Throws what the watchdog finds out about a broken connection: which rank is gone, and why.
  [[noreturn]] void explain_break(const std::exception& error) const;
  void wait(const StartedCall& call, const Work& work);
  // Notes when a call that runs beside the caller's work is complete.
  void watch(StartedCall& call, const std::vector<Work>& works) const;
  // Returns the transport of a tensor's device, locked while the caller begins a collective.
  // Throws if the collectives of this device were abandoned.
  struct LockedBackend {
    std::unique_lock<std::mutex> lock;  // none for host memory
    c10d::Backend& backend;
    c10d::Backend* operator->() const { return &backend; }
  };
  LockedBackend backend_of(const at::Tensor& tensor);
  WatchdogHooks with_left_alone(WatchdogHooks hooks);
  void begin_abort();  // with device_mutex_ held
  void check_sizes(const StartedCall& call, const std::vector<int64_t>& out_sizes,
                   const std::vector<int64_t>& in_sizes);
  static Work send_from(c10d::Backend& backend, const at::Tensor& bytes, int64_t root);
  // `bytes` [sum of sizes]; this rank's piece is in place.
  std::vector<Work> gather_pieces(const at::Tensor& bytes, const std::vector<int64_t>& sizes);
  std::vector<std::string> gather_texts(const StartedCall& call, const std::string& text,
                                        std::string_view label);
  // Throws what the watchdog finds out about ranks that have met in different calls.
  [[noreturn]] void explain_difference(const StartedCall& call, int64_t other);

  const RankEnvironment env_;
  const bool check_;
  CollectiveTimes* const times_;
  FlightRecord& record_;
  c10::intrusive_ptr<c10d::Store> store_;
  // Shared with the watchdog's thread, which abandons the device's collectives.
  std::mutex device_mutex_;
  c10::intrusive_ptr<c10d::Backend> device_;  // made by the first collective on a GPU
  std::shared_future<void> abort_;            // of device_; valid once it has begun
  Watchdog watchdog_;
  bool reconnected_ = false;
  c10::intrusive_ptr<c10d::Backend> host_;
};

int64_t total_size(const std::vector<int64_t>& sizes);

// Returns the tensor's bytes as a flat view, outside of autograd.
at::Tensor byte_view(const at::Tensor& tensor);

}  // namespace xrun
