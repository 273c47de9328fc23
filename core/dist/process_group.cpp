// Every collective is built from two of c10d's: all-to-all and broadcast. Tensors travel as bytes.

#include "core/dist/process_group.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/dist/gloo_backend.h"
#include "core/dist/rendezvous.h"
#include "core/dist/work_wait.h"

namespace xrun {

namespace {

// The host wakes this often to see whether the watchdog has found a failed rank.
constexpr std::chrono::milliseconds kPoll{200};
constexpr double kVerdictS = 12;  // a rank that stopped is found after 8 s

// The error of another rank.
class StoppedByRank : public Error {
 public:
  using Error::Error;
};

class Pending final : public PendingCollective {
 public:
  Pending(ProcessGroup& group, ProcessGroup::StartedCall call,
          std::vector<ProcessGroup::Work> works)
      : group_(group), call_(std::move(call)), works_(std::move(works)) {}
  void wait() override { group_.finish(call_, std::exchange(works_, {})); }

 private:
  ProcessGroup& group_;
  ProcessGroup::StartedCall call_;
  std::vector<ProcessGroup::Work> works_;
};

// Returns the sizes in bytes after checking them.
std::vector<int64_t> byte_sizes(std::string_view label, const at::Tensor& tensor,
                                const std::vector<int64_t>& sizes, int64_t ranks) {
  XRUN_CHECK(tensor.is_contiguous(), "\"{}\": a collective needs contiguous tensors", label);
  XRUN_CHECK(static_cast<int64_t>(sizes.size()) == ranks, "\"{}\": got {} sizes for {} ranks",
             label, sizes.size(), ranks);
  XRUN_CHECK(total_size(sizes) == tensor.numel(),
             "\"{}\": the pieces have {} elements, the tensor has {}", label, total_size(sizes),
             tensor.numel());
  std::vector<int64_t> out = sizes;
  for (int64_t& size : out) size *= static_cast<int64_t>(tensor.element_size());
  return out;
}

}  // namespace

int64_t total_size(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

at::Tensor byte_view(const at::Tensor& tensor) {
  return tensor.detach().reshape({-1}).view(at::kByte);
}

ProcessGroup::ProcessGroup(const RankEnvironment& env, const JoinOptions& options,
                           c10::intrusive_ptr<c10d::Store> store, WatchConnection watched)
    : env_(env),
      check_(options.check),
      times_(options.times),
      record_(*options.record),
      store_(std::move(store)),
      watchdog_(env, record_, std::move(watched), with_left_alone(options.hooks), options.limits) {
  connect();
}

void ProcessGroup::connect() {
  const int64_t number = record_.begin("connect", 0);
  record_.wait_for(number, "connect", 0);
  try {
    host_ = make_gloo_backend(store_, env_.rank, env_.world_size, own_address(env_));
  } catch (const std::exception& error) {
    explain_break(error);
  }
  record_.end();
}

// Only another thread can end a collective that a rank with an error will never join: the host may
// be waiting for a stream that waits for it.
WatchdogHooks ProcessGroup::with_left_alone(WatchdogHooks hooks) {
  hooks.left_alone = [this] {
    // The host holds the lock while it begins a collective. The watchdog does not wait for it, and
    // tries again at the next beat.
    const std::unique_lock lock(device_mutex_, std::try_to_lock);
    if (lock) begin_abort();
  };
  return hooks;
}

// On a thread of its own: an abort may take longer than a beat of the watchdog.
void ProcessGroup::begin_abort() {
  if (!device_ || abort_.valid()) return;
  abort_ = std::async(std::launch::async, [device = device_] { device->abort(); }).share();
}

void ProcessGroup::abandon_device_calls() {
  std::shared_future<void> abort;
  {
    const std::lock_guard lock(device_mutex_);
    begin_abort();
    abort = abort_;
  }
  if (abort.valid()) abort.get();
}

// On the host, collectives that some ranks never joined stay under way, with the connections and
// the memory that they use. Those on a device are ended, since its stream would wait for them.
Stopped ProcessGroup::stop_together(const std::string& message) {
  const Stopped stopped = watchdog_.stop_together(message);
  if (stopped != Stopped::kApart) return stopped;
  abandon_device_calls();
  {
    const std::lock_guard lock(device_mutex_);
    device_.reset();  // the next collective on a device connects again
    abort_ = {};
  }
  static_cast<void>(host_.release());
  store_ = c10::make_intrusive<c10d::PrefixStore>("after an error", store_);
  reconnected_ = true;
  connect();
  return stopped;
}

ProcessGroup::~ProcessGroup() {
  // Gloo waits for its pending work, which a rank that is gone never ends.
  if (watchdog_.verdict()) static_cast<void>(host_.release());
}

void ProcessGroup::check_verdict() const {
  const std::optional<RankVerdict> verdict = watchdog_.verdict();
  if (!verdict) return;
  // Keeps the exit status: 2 means that settings differ, which no retry fixes.
  if (verdict->status == 2) throw UsageError(verdict->text);
  throw Error(verdict->text);
}

void ProcessGroup::check_stops(int64_t number, bool reconnected) {
  XRUN_CHECK(reconnected == reconnected_, "a collective was left when another rank had an error");
  if (const auto error = watchdog_.error_before(number)) throw StoppedByRank(error->text);
}

void ProcessGroup::explain_break(const std::exception& error) const {
  watchdog_.await_verdict(kVerdictS);
  check_verdict();
  throw Error(fmt::format("the connection to another rank broke: {}", error.what()));
}

ProcessGroup::StartedCall ProcessGroup::begin(std::string_view label, int64_t bytes,
                                              std::string_view arguments) {
  check_verdict();
  check_stops(record_.read().begun, reconnected_);
  StartedCall call = {record_.begin(label, bytes), std::string(label), bytes, reconnected_};
  // Taken before the check, whose collective is part of this call's cost.
  call.begun = CollectiveTimes::Clock::now();
  if (check_) check_arguments(call, arguments);
  return call;
}

void ProcessGroup::check_arguments(const StartedCall& call, std::string_view arguments) {
  const std::string own = fmt::format("\"{}\" {}", call.label, arguments);
  const std::vector<std::string> all = gather_texts(call, own, "arguments");
  // Compared with rank 0, so that all ranks throw the same message.
  for (int64_t r = 1; r < size(); ++r) {
    XRUN_CHECK(all[r] == all[0],
               "collective {} differs between ranks: rank 0 calls {}, rank {} calls {}",
               call.number, all[0], r, all[r]);
  }
}

// Every rank calls this in the same collective, so making the backend may be collective too.
ProcessGroup::LockedBackend ProcessGroup::backend_of(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return {{}, *host_};
  std::unique_lock lock(device_mutex_);
  if (abort_.valid()) {
    check_stops(record_.read().begun - 1, reconnected_);
    throw Error("the collectives on the device were ended after an error");
  }
  if (!device_) {
    using Make = void(const c10::intrusive_ptr<c10d::Store>&, int64_t, int64_t,
                      c10::intrusive_ptr<c10d::Backend>&);
    // Found by name: the engine links no CUDA, and the plug-in is loaded by then or never.
    auto* const make = reinterpret_cast<Make*>(::dlsym(RTLD_DEFAULT, "xrun_make_nccl_backend"));
    XRUN_CHECK(make != nullptr, "collectives of tensors on {} need the CUDA plug-in",
               tensor.device().str());
    make(c10::make_intrusive<c10d::PrefixStore>("nccl", store_), rank(), size(), device_);
  }
  return {std::move(lock), *device_};
}

void ProcessGroup::wait(const StartedCall& call, const Work& work) {
  try {
    if (call.on_device) {
      work->wait();  // orders the stream and returns, so it needs no timeout
    } else {
      while (!wait_once(*work, kPoll)) {
        check_verdict();
        check_stops(call.number, call.reconnected);
      }
    }
  } catch (const Error&) {
    throw;  // the verdict, or the error of a rank that has stopped
  } catch (const std::exception& error) {
    if (call.on_device) check_stops(call.number, call.reconnected);
    explain_break(error);
  }
}

void ProcessGroup::finish(const StartedCall& call, const std::vector<Work>& works) {
  const auto wait_begun = CollectiveTimes::Clock::now();
  record_.wait_for(call.number, call.label, call.bytes);
  try {
    for (const Work& work : works) wait(call, work);
  } catch (const StoppedByRank&) {
    record_.end();  // this rank waits no longer, and may save
    throw;
  }
  record_.end();
  if (times_ == nullptr) return;
  const auto wait_ended = CollectiveTimes::Clock::now();
  // 0: there is no callback, or it has not run yet; then the call ended no later than this wait.
  const auto complete = call.complete ? call.complete->load() : 0;
  times_->add({call.number, call.label, call.bytes, call.begun,
               complete == 0
                   ? wait_ended
                   : CollectiveTimes::Clock::time_point(CollectiveTimes::Clock::duration(complete)),
               wait_begun, wait_ended});
}

void ProcessGroup::watch(StartedCall& call, const std::vector<Work>& works) const {
  if (times_ == nullptr || works.empty() || call.on_device) return;
  call.complete = std::make_shared<std::atomic<CollectiveTimes::Clock::rep>>(0);
  works.back()->getFuture()->addCallback([complete = call.complete](c10::ivalue::Future&) {
    *complete = CollectiveTimes::Clock::now().time_since_epoch().count();
  });
}

ProcessGroup::Work ProcessGroup::send_from(c10d::Backend& backend, const at::Tensor& bytes,
                                           int64_t root) {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors = {bytes};
  return backend.broadcast(tensors, options);
}

// The watchdog reports which calls they are.
void ProcessGroup::explain_difference(const StartedCall& call, int64_t other) {
  record_.wait_for(call.number, call.label, call.bytes);
  watchdog_.await_verdict(kVerdictS);
  check_verdict();
  throw Error(fmt::format("rank {} is in a different call than \"{}\" (collective {})", other,
                          call.label, call.number));
}

// Each rank gives the sizes that it sends, then those that it expects.
void ProcessGroup::check_sizes(const StartedCall& call, const std::vector<int64_t>& out_sizes,
                               const std::vector<int64_t>& in_sizes) {
  const size_t bytes = in_sizes.size() * sizeof(int64_t);
  const std::vector<std::string> all =
      gather_texts(call,
                   std::string(reinterpret_cast<const char*>(in_sizes.data()), bytes) +
                       std::string(reinterpret_cast<const char*>(out_sizes.data()), bytes),
                   "sizes");
  const auto size_at = [&](int64_t r, int64_t i) {
    int64_t out = 0;
    std::memcpy(&out, all[r].data() + i * sizeof out, sizeof out);
    return out;
  };
  for (int64_t from = 0; from < size(); ++from) {
    for (int64_t to = 0; to < size(); ++to) {
      const int64_t sent = size_at(from, to), expected = size_at(to, size() + from);
      XRUN_CHECK(
          sent == expected,
          "collective {} \"{}\" differs between ranks: rank {} sends {} elements to rank {}, "
          "which expects {}",
          call.number, call.label, from, sent, to, expected);
    }
  }
}

std::unique_ptr<PendingCollective> ProcessGroup::exchange(std::string_view label,
                                                          const at::Tensor& out,
                                                          const std::vector<int64_t>& out_sizes,
                                                          const at::Tensor& in,
                                                          const std::vector<int64_t>& in_sizes) {
  std::vector<int64_t> out_bytes = byte_sizes(label, out, out_sizes, size());
  std::vector<int64_t> in_bytes = byte_sizes(label, in, in_sizes, size());
  XRUN_CHECK(out.scalar_type() == in.scalar_type(), "\"{}\": in and out differ in dtype", label);
  at::Tensor to = byte_view(out);
  at::Tensor from = byte_view(in);
  // Sizes may differ by rank, but must agree between two ranks: each rank checks its own column.
  StartedCall call = begin(label, to.numel() + from.numel(),
                           fmt::format("exchange of {}", c10::toString(in.scalar_type())));
  call.on_device = !out.device().is_cpu();
  if (check_) check_sizes(call, out_sizes, in_sizes);
  std::vector<Work> works = {backend_of(out)->alltoall_base(to, from, out_bytes, in_bytes)};
  watch(call, works);
  return std::make_unique<Pending>(*this, std::move(call), std::move(works));
}

std::unique_ptr<PendingCollective> ProcessGroup::all_gather(std::string_view label,
                                                            const at::Tensor& out,
                                                            const std::vector<int64_t>& sizes,
                                                            const at::Tensor& in) {
  const std::vector<int64_t> bytes = byte_sizes(label, out, sizes, size());
  XRUN_CHECK(in.numel() == sizes[rank()] && in.scalar_type() == out.scalar_type(),
             "\"{}\": rank {} gives {} elements of {}, wanted {} of {}", label, rank(), in.numel(),
             c10::toString(in.scalar_type()), sizes[rank()], c10::toString(out.scalar_type()));
  const int64_t offset = std::accumulate(sizes.begin(), sizes.begin() + rank(), int64_t{0});
  at::Tensor own = out.detach().reshape({-1}).narrow(0, offset, sizes[rank()]);
  const at::Tensor from = in.detach().reshape({-1});
  // gather_pieces sends from the offset in `out`, so the own piece goes there first.
  // Callers may pass a range of `out` itself, which is in place already.
  if (own.data_ptr() != from.data_ptr()) own.copy_(from);
  const at::Tensor all = byte_view(out);
  StartedCall call = begin(label, all.numel(),
                           fmt::format("all_gather of {}, sizes {}",
                                       c10::toString(out.scalar_type()), fmt::join(sizes, " ")));
  call.on_device = !out.device().is_cpu();
  std::vector<Work> works = gather_pieces(all, bytes);
  watch(call, works);
  return std::make_unique<Pending>(*this, std::move(call), std::move(works));
}

void ProcessGroup::barrier(std::string_view label) {
  gather_texts(begin(label, 0, "barrier"), "", label);
}

}  // namespace xrun
