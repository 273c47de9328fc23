// Every collective is made of two of c10d's: all-to-all and broadcast. Tensors travel as bytes. A
// text travels in a block of fixed size if it fits, followed by a second collective if it does not.
// A gathered block begins with the hash of its label: all gathers look alike to c10d, so ranks in
// different ones would take each other's texts.

#include "core/dist/process_group.h"

#include <ATen/ops/empty.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/dist/gloo_backend.h"
#include "core/dist/rendezvous.h"
#include "core/dist/watch/flight_record.h"
#include "core/dist/watch/socket.h"
#include "core/dist/watch/watchdog.h"

namespace xrun {

namespace {

// Most texts are short (errors, counts): one block each spares a collective for their lengths.
constexpr int64_t kBlockBytes = 512;
constexpr int64_t kTextBytes = kBlockBytes - static_cast<int64_t>(sizeof(int64_t));
// Of a gather: the length and the label stand before the text.
struct GatherHead {
  int64_t length;
  uint64_t label;
};
constexpr int64_t kGatherBytes = kBlockBytes - static_cast<int64_t>(sizeof(GatherHead));
// The host wakes this often to see whether the watchdog has found a failed rank.
constexpr std::chrono::milliseconds kPoll{200};
constexpr double kVerdictS = 12;  // a rank that stopped is found after 8 s
constexpr double kWatchS = 60;

using Work = c10::intrusive_ptr<c10d::Work>;

int64_t total(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

// Returns the tensor's bytes as a flat view, outside of autograd.
at::Tensor bytes_of(const at::Tensor& tensor) {
  return tensor.detach().reshape({-1}).view(at::kByte);
}

at::Tensor empty_bytes(int64_t size) { return at::empty({size}, at::kByte); }

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "));
}

char* text_data(const at::Tensor& bytes) { return static_cast<char*>(bytes.mutable_data_ptr()); }

class ProcessGroup final : public Ranks {
 public:
  // Connects to the others, through the addresses that `store` exchanges.
  ProcessGroup(const World& world, const JoinOptions& options,
               c10::intrusive_ptr<c10d::Store> store, Socket watched);
  ~ProcessGroup() override;

  int64_t rank() const override { return world_.rank; }
  int64_t size() const override { return world_.size; }

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
  void fail(int status, const std::string& message) override { watchdog_.fail(status, message); }

  // Waits for a call that has begun.
  struct Call {
    int64_t number;
    std::string label;
    int64_t bytes;
    bool on_device = false;  // its end orders the stream, and the host does not wait
    CollectiveTimes::Clock::time_point begun = {};
    std::shared_ptr<std::atomic<CollectiveTimes::Clock::rep>> complete = {};  // 0: not yet
  };
  void finish(const Call& call, const std::vector<Work>& works);

 private:
  // Notes a call. With options.check, compares `arguments` over ranks first.
  Call begin(std::string_view label, int64_t bytes, std::string_view arguments);
  void check_arguments(const Call& call, std::string_view arguments);
  void check_verdict() const;
  // Throws for a connection that broke, with what the watchdog finds out: which rank is gone, why.
  [[noreturn]] void explain_break(const std::exception& error) const;
  void wait(const Call& call, const Work& work);
  // Notes when a call that runs beside the caller's work is complete.
  void watch(Call& call, const std::vector<Work>& works) const;
  c10d::Backend& backend_of(const at::Tensor& tensor);
  void check_sizes(const Call& call, const std::vector<int64_t>& out_sizes,
                   const std::vector<int64_t>& in_sizes);
  Work send_from(const at::Tensor& bytes, int64_t root);
  // `bytes` [sum of sizes]; this rank's piece is in place.
  std::vector<Work> gather_pieces(const at::Tensor& bytes, const std::vector<int64_t>& sizes);
  std::vector<std::string> gather_texts(const Call& call, const std::string& text,
                                        std::string_view label);
  // For ranks that have met in different calls: throws what the watchdog finds.
  [[noreturn]] void explain_difference(const Call& call, int64_t other);

  const World world_;
  const bool check_;
  CollectiveTimes* const times_;
  FlightRecord& record_;
  c10::intrusive_ptr<c10d::Store> store_;
  Watchdog watchdog_;
  c10::intrusive_ptr<c10d::Backend> host_;
  c10::intrusive_ptr<c10d::Backend> device_;  // made by the first collective on a GPU
};

class Pending final : public PendingCollective {
 public:
  Pending(ProcessGroup& group, ProcessGroup::Call call, std::vector<Work> works)
      : group_(group), call_(std::move(call)), works_(std::move(works)) {}
  void wait() override { group_.finish(call_, std::exchange(works_, {})); }

 private:
  ProcessGroup& group_;
  ProcessGroup::Call call_;
  std::vector<Work> works_;
};

// On rank 0 the watchdog's socket listens, on the others it is connected to it.
Socket watch_rank_0(c10d::Store& store, const World& world) {
  const std::vector<uint8_t> text = store.get("watch/port");
  return connect_to(world.one_machine() ? kLoopback : world.address,
                    std::atoi(std::string(text.begin(), text.end()).c_str()), kWatchS);
}

ProcessGroup::ProcessGroup(const World& world, const JoinOptions& options,
                           c10::intrusive_ptr<c10d::Store> store, Socket watched)
    : world_(world),
      check_(options.check),
      times_(options.times),
      record_(*options.record),
      store_(std::move(store)),
      watchdog_(world, record_, std::move(watched), options.hooks, options.limits) {
  const Call call = {record_.begin("connect", 0), "connect", 0};
  record_.wait_for(call.number, call.label, call.bytes);
  try {
    host_ = make_gloo_backend(store_, world.rank, world.size, own_address(world));
  } catch (const std::exception& error) {
    explain_break(error);
  }
  record_.end();
}

ProcessGroup::~ProcessGroup() {
  // Gloo waits for its pending work, which a rank that is gone never ends.
  if (watchdog_.verdict()) static_cast<void>(host_.release());
}

void ProcessGroup::check_verdict() const {
  const std::optional<RankVerdict> verdict = watchdog_.verdict();
  if (!verdict) return;
  // The exit status survives: 2 is a difference in settings, which no retry mends.
  if (verdict->status == 2) throw UsageError(verdict->text);
  throw Error(verdict->text);
}

void ProcessGroup::explain_break(const std::exception& error) const {
  watchdog_.await_verdict(kVerdictS);
  check_verdict();
  throw Error(fmt::format("the connection to another rank broke: {}", error.what()));
}

ProcessGroup::Call ProcessGroup::begin(std::string_view label, int64_t bytes,
                                       std::string_view arguments) {
  check_verdict();
  Call call = {record_.begin(label, bytes), std::string(label), bytes};
  // Before the check, whose collective belongs to the cost of this one.
  call.begun = CollectiveTimes::Clock::now();
  if (check_) check_arguments(call, arguments);
  return call;
}

void ProcessGroup::check_arguments(const Call& call, std::string_view arguments) {
  const std::string own = fmt::format("\"{}\" {}", call.label, arguments);
  const std::vector<std::string> all = gather_texts(call, own, "arguments");
  // Against rank 0, so that all ranks throw the same message.
  for (int64_t r = 1; r < size(); ++r) {
    XRUN_CHECK(all[r] == all[0],
               "collective {} differs between ranks: rank 0 calls {}, rank {} calls {}",
               call.number, all[0], r, all[r]);
  }
}

// Every rank comes here in the same collective, so that making the backend is one as well.
c10d::Backend& ProcessGroup::backend_of(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return *host_;
  if (!device_) {
    using Make = void(const c10::intrusive_ptr<c10d::Store>&, int64_t, int64_t,
                      c10::intrusive_ptr<c10d::Backend>&);
    // Found by name: the engine links no CUDA, and the plug-in is loaded by then or never.
    auto* const make = reinterpret_cast<Make*>(::dlsym(RTLD_DEFAULT, "xrun_make_nccl_backend"));
    XRUN_CHECK(make != nullptr, "collectives of tensors on {} need the CUDA plug-in",
               tensor.device().str());
    make(c10::make_intrusive<c10d::PrefixStore>("nccl", store_), rank(), size(), device_);
  }
  return *device_;
}

void ProcessGroup::wait(const Call& call, const Work& work) {
  while (true) {
    try {
      // On a GPU wait() only orders the stream and returns, so it needs no timeout.
      call.on_device ? work->wait() : work->wait(kPoll);
      return;
    } catch (const std::exception& error) {
      check_verdict();
      // A timeout of kPoll ends up here too, and the collective goes on.
      if (!work->isCompleted()) continue;
      explain_break(error);
    }
  }
}

void ProcessGroup::finish(const Call& call, const std::vector<Work>& works) {
  const auto wait_begun = CollectiveTimes::Clock::now();
  record_.wait_for(call.number, call.label, call.bytes);
  for (const Work& work : works) wait(call, work);
  record_.end();
  if (times_ == nullptr) return;
  const auto wait_ended = CollectiveTimes::Clock::now();
  // 0: there is no callback, or it has not run yet; the call then ended with this wait at the
  // latest.
  const auto complete = call.complete ? call.complete->load() : 0;
  times_->add({call.label, call.bytes, call.begun,
               complete == 0
                   ? wait_ended
                   : CollectiveTimes::Clock::time_point(CollectiveTimes::Clock::duration(complete)),
               wait_begun, wait_ended});
}

void ProcessGroup::watch(Call& call, const std::vector<Work>& works) const {
  if (times_ == nullptr || works.empty() || call.on_device) return;
  call.complete = std::make_shared<std::atomic<CollectiveTimes::Clock::rep>>(0);
  works.back()->getFuture()->addCallback([complete = call.complete](c10::ivalue::Future&) {
    *complete = CollectiveTimes::Clock::now().time_since_epoch().count();
  });
}

Work ProcessGroup::send_from(const at::Tensor& bytes, int64_t root) {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors = {bytes};
  return backend_of(bytes).broadcast(tensors, options);
}

std::vector<Work> ProcessGroup::gather_pieces(const at::Tensor& bytes,
                                              const std::vector<int64_t>& sizes) {
  std::vector<Work> works;
  // Every rank has the same sizes, so all of them skip the collective.
  if (total(sizes) == 0) return works;
  // NCCL makes one operation of the broadcasts.
  c10d::Backend& backend = backend_of(bytes);
  const bool together = backend.supportsCoalescing();
  if (together) backend.startCoalescing();
  int64_t begin = 0;
  for (int64_t r = 0; r < size(); ++r) {
    const int64_t count = sizes[r];
    // One broadcast by each rank, since pieces may differ in size.
    if (count != 0) works.push_back(send_from(bytes.narrow(0, begin, count), r));
    begin += count;
  }
  if (together) works = {backend.endCoalescing()};
  return works;
}

// The watchdog reports which calls they are.
void ProcessGroup::explain_difference(const Call& call, int64_t other) {
  record_.wait_for(call.number, call.label, call.bytes);
  watchdog_.await_verdict(kVerdictS);
  check_verdict();
  throw Error(fmt::format("rank {} is in a different call than \"{}\" (collective {})", other,
                          call.label, call.number));
}

std::vector<std::string> ProcessGroup::gather_texts(const Call& call, const std::string& text,
                                                    std::string_view label) {
  const GatherHead head = {static_cast<int64_t>(text.size()), hash_u64(label)};
  const int64_t length = head.length;
  const at::Tensor blocks = empty_bytes(kBlockBytes * size());
  at::Tensor own = blocks.narrow(0, kBlockBytes * rank(), kBlockBytes);
  std::memcpy(text_data(own), &head, sizeof head);
  std::memcpy(text_data(own) + sizeof head, text.data(), std::min(length, kGatherBytes));
  finish(call, gather_pieces(blocks, std::vector<int64_t>(size(), kBlockBytes)));

  std::vector<int64_t> lengths(size());
  std::vector<int64_t> rests(size());
  std::vector<std::string> out(size());
  for (int64_t r = 0; r < size(); ++r) {
    const char* const block = text_data(blocks) + r * kBlockBytes;
    GatherHead of{};
    std::memcpy(&of, block, sizeof of);
    // Before the length is believed: in another call the block means something else.
    if (of.label != head.label) explain_difference(call, r);
    lengths[r] = of.length;
    XRUN_CHECK(lengths[r] >= 0, "\"{}\": rank {} made a different call", call.label, r);
    const int64_t inside = std::min(lengths[r], kGatherBytes);
    out[r].assign(block + sizeof of, inside);
    rests[r] = lengths[r] - inside;
  }
  if (total(rests) == 0) return out;
  // All ranks have all heads now and agree on whether there is a second collective.
  const at::Tensor rest = empty_bytes(total(rests));
  const int64_t begin = std::accumulate(rests.begin(), rests.begin() + rank(), int64_t{0});
  std::memcpy(text_data(rest) + begin, text.data() + length - rests[rank()], rests[rank()]);
  finish(call, gather_pieces(rest, rests));
  const char* at = text_data(rest);
  for (int64_t r = 0; r < size(); ++r) {
    out[r].append(at, rests[r]);
    at += rests[r];
  }
  return out;
}

std::vector<std::string> ProcessGroup::gather(std::string_view label, const std::string& text) {
  const Call call = begin(label, static_cast<int64_t>(text.size()), "gather of texts");
  return gather_texts(call, text, label);
}

std::string ProcessGroup::broadcast(std::string_view label, const std::string& text, int64_t root) {
  const Call call = begin(label, static_cast<int64_t>(text.size()),
                          fmt::format("broadcast of a text from rank {}", root));
  auto length = static_cast<int64_t>(text.size());
  const at::Tensor block = empty_bytes(kBlockBytes);
  if (rank() == root) {
    std::memcpy(text_data(block), &length, sizeof length);
    std::memcpy(text_data(block) + sizeof length, text.data(), std::min(length, kTextBytes));
  }
  finish(call, {send_from(block, root)});
  std::memcpy(&length, text_data(block), sizeof length);
  const int64_t inside = std::min(length, kTextBytes);
  std::string out(text_data(block) + sizeof length, inside);
  // The length came with the block, so the receivers know whether more follows.
  if (length == inside) return out;
  const at::Tensor rest = empty_bytes(length - inside);
  if (rank() == root) std::memcpy(text_data(rest), text.data() + inside, length - inside);
  finish(call, {send_from(rest, root)});
  out.append(text_data(rest), length - inside);
  return out;
}

void ProcessGroup::broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) {
  XRUN_CHECK(tensor.is_contiguous(), "\"{}\": a broadcast needs a contiguous tensor", label);
  const at::Tensor bytes = bytes_of(tensor);
  Call call = begin(label, bytes.numel(),
                    fmt::format("broadcast of {} from rank {}", shape_text(tensor), root));
  call.on_device = !tensor.device().is_cpu();
  // Empty on every rank, or the ranks differ in shape, which `check` reports.
  if (bytes.numel() != 0) finish(call, {send_from(bytes, root)});
}

// Returns the sizes in bytes after checking them.
std::vector<int64_t> byte_sizes(std::string_view label, const at::Tensor& tensor,
                                const std::vector<int64_t>& sizes, int64_t ranks) {
  XRUN_CHECK(tensor.is_contiguous(), "\"{}\": a collective needs contiguous tensors", label);
  XRUN_CHECK(static_cast<int64_t>(sizes.size()) == ranks, "\"{}\": got {} sizes for {} ranks",
             label, sizes.size(), ranks);
  XRUN_CHECK(total(sizes) == tensor.numel(), "\"{}\": the pieces have {} elements, the tensor {}",
             label, total(sizes), tensor.numel());
  std::vector<int64_t> out = sizes;
  for (int64_t& size : out) size *= static_cast<int64_t>(tensor.element_size());
  return out;
}

// Each rank gives the sizes that it sends, then those that it expects.
void ProcessGroup::check_sizes(const Call& call, const std::vector<int64_t>& out_sizes,
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
  at::Tensor to = bytes_of(out);
  at::Tensor from = bytes_of(in);
  // The sizes differ by rank; those of a pair must agree, which every rank checks for its column.
  Call call = begin(label, to.numel() + from.numel(),
                    fmt::format("exchange of {}", c10::toString(in.scalar_type())));
  call.on_device = !out.device().is_cpu();
  if (check_) check_sizes(call, out_sizes, in_sizes);
  std::vector<Work> works = {backend_of(out).alltoall_base(to, from, out_bytes, in_bytes)};
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
  // gather_pieces sends from the place in `out`, so the own piece goes there first.
  // Callers may pass a range of `out` itself, which is in place already.
  if (own.data_ptr() != from.data_ptr()) own.copy_(from);
  const at::Tensor all = bytes_of(out);
  Call call = begin(label, all.numel(),
                    fmt::format("all_gather of {}, sizes {}", c10::toString(out.scalar_type()),
                                fmt::join(sizes, " ")));
  call.on_device = !out.device().is_cpu();
  std::vector<Work> works = gather_pieces(all, bytes);
  watch(call, works);
  return std::make_unique<Pending>(*this, std::move(call), std::move(works));
}

void ProcessGroup::barrier(std::string_view label) {
  gather_texts(begin(label, 0, "barrier"), "", label);
}

// Moves the record to the memory that `xrun launch` reads, if it started this process.
void share_record(FlightRecord& record, const World& world) {
  const char* const text = std::getenv("XRUN_RANK_RECORDS");
  if (text == nullptr || &record != &flight_record()) return;
  const int fd = std::atoi(text);
  record.share(fd, world.local_rank);
  ::unsetenv("XRUN_RANK_RECORDS");  // neither is for the programs that this process starts
  ::close(fd);
}

}  // namespace

std::unique_ptr<Ranks> join_ranks(const World& world, const JoinOptions& options) {
  share_record(*options.record, world);
  auto store = open_store(world);
  Socket watched;
  if (world.rank == 0) {
    // The system chooses the port; the store tells it to the others.
    watched = listen_on(0, world.one_machine());
    store->set("watch/port", std::to_string(port_of(watched)));
  }
  meet(*store, world, options.program);
  options.record->join();
  if (world.rank != 0) watched = watch_rank_0(*store, world);
  return std::make_unique<ProcessGroup>(world, options, std::move(store), std::move(watched));
}

}  // namespace xrun
