// Every collective is made of two of c10d's: all-to-all and broadcast. Tensors travel as bytes. A
// text travels in a block of fixed size if it fits, followed by a second collective if it does not.

#include "core/dist/process_group.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/dist/gloo_backend.h"
#include "core/dist/rendezvous.h"
#include "core/dist/watch/flight_record.h"

namespace xrun {

namespace {

constexpr int64_t kBlockBytes = 512;
constexpr int64_t kTextBytes = kBlockBytes - static_cast<int64_t>(sizeof(int64_t));
constexpr std::chrono::milliseconds kPoll{200};

using Work = c10::intrusive_ptr<c10d::Work>;

int64_t total(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

// Returns the tensor's bytes as a flat view, outside of autograd.
at::Tensor bytes_of(const at::Tensor& tensor) {
  return tensor.detach().reshape({-1}).view(at::kByte);
}

at::Tensor empty_bytes(int64_t size) { return at::empty({size}, at::kByte); }

char* text_data(const at::Tensor& bytes) { return static_cast<char*>(bytes.mutable_data_ptr()); }

class ProcessGroup final : public Ranks {
 public:
  ProcessGroup(const World& world, c10::intrusive_ptr<c10d::Store> store,
               c10::intrusive_ptr<c10d::Backend> host, FlightRecord& record)
      : world_(world), record_(record), store_(std::move(store)), host_(std::move(host)) {}

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

  void finish(const std::vector<Work>& works);

 private:
  c10d::Backend& backend_of(const at::Tensor& tensor);
  Work send_from(const at::Tensor& bytes, int64_t root);
  // `bytes` [sum of sizes]; this rank's piece is in place.
  std::vector<Work> gather_pieces(const at::Tensor& bytes, const std::vector<int64_t>& sizes);
  std::vector<std::string> gather_texts(const std::string& text);

  World world_;
  FlightRecord& record_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> host_;
};

class Pending final : public PendingCollective {
 public:
  Pending(ProcessGroup& group, std::vector<Work> works, std::string label, int64_t bytes)
      : group_(group), works_(std::move(works)), label_(std::move(label)), bytes_(bytes) {}
  void wait() override {
    if (works_.empty()) return;
    group_.finish(std::exchange(works_, {}));
  }

 private:
  ProcessGroup& group_;
  std::vector<Work> works_;
  std::string label_;
  int64_t bytes_;
};

c10d::Backend& ProcessGroup::backend_of(const at::Tensor& tensor) {
  XRUN_CHECK(tensor.device().is_cpu(), "collectives of tensors on {} need the CUDA plug-in",
             tensor.device().str());
  return *host_;
}

void ProcessGroup::finish(const std::vector<Work>& works) {
  for (const Work& work : works) {
    for (bool done = false; !done;) {
      try {
        work->wait(kPoll);
        done = true;
      } catch (const c10::Error& error) {
        if (work->isCompleted()) throw Error(error.what_without_backtrace());
      }
    }
  }
  record_.end();
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
  int64_t begin = 0;
  for (int64_t r = 0; r < size(); ++r) {
    const int64_t count = sizes[r];
    if (count != 0) works.push_back(send_from(bytes.narrow(0, begin, count), r));
    begin += count;
  }
  return works;
}

std::vector<std::string> ProcessGroup::gather_texts(const std::string& text) {
  const auto length = static_cast<int64_t>(text.size());
  const at::Tensor blocks = empty_bytes(kBlockBytes * size());
  at::Tensor own = blocks.narrow(0, kBlockBytes * rank(), kBlockBytes);
  std::memcpy(text_data(own), &length, sizeof length);
  std::memcpy(text_data(own) + sizeof length, text.data(), std::min(length, kTextBytes));
  finish(gather_pieces(blocks, std::vector<int64_t>(size(), kBlockBytes)));

  std::vector<int64_t> lengths(size());
  std::vector<int64_t> rests(size());
  std::vector<std::string> out(size());
  for (int64_t r = 0; r < size(); ++r) {
    const char* const block = text_data(blocks) + r * kBlockBytes;
    std::memcpy(&lengths[r], block, sizeof(int64_t));
    const int64_t inside = std::min(lengths[r], kTextBytes);
    out[r].assign(block + sizeof(int64_t), inside);
    rests[r] = lengths[r] - inside;
  }
  if (total(rests) == 0) return out;
  const at::Tensor rest = empty_bytes(total(rests));
  const int64_t begin = std::accumulate(rests.begin(), rests.begin() + rank(), int64_t{0});
  std::memcpy(text_data(rest) + begin, text.data() + length - rests[rank()], rests[rank()]);
  finish(gather_pieces(rest, rests));
  const char* at = text_data(rest);
  for (int64_t r = 0; r < size(); ++r) {
    out[r].append(at, rests[r]);
    at += rests[r];
  }
  return out;
}

std::vector<std::string> ProcessGroup::gather(std::string_view label, const std::string& text) {
  record_.begin(label, static_cast<int64_t>(text.size()));
  return gather_texts(text);
}

std::string ProcessGroup::broadcast(std::string_view label, const std::string& text,
                                    int64_t root) {
  record_.begin(label, rank() == root ? static_cast<int64_t>(text.size()) : 0);
  auto length = static_cast<int64_t>(text.size());
  const at::Tensor block = empty_bytes(kBlockBytes);
  if (rank() == root) {
    std::memcpy(text_data(block), &length, sizeof length);
    std::memcpy(text_data(block) + sizeof length, text.data(), std::min(length, kTextBytes));
  }
  finish({send_from(block, root)});
  std::memcpy(&length, text_data(block), sizeof length);
  const int64_t inside = std::min(length, kTextBytes);
  std::string out(text_data(block) + sizeof length, inside);
  if (length == inside) return out;
  const at::Tensor rest = empty_bytes(length - inside);
  if (rank() == root) std::memcpy(text_data(rest), text.data() + inside, length - inside);
  finish({send_from(rest, root)});
  out.append(text_data(rest), length - inside);
  return out;
}

void ProcessGroup::broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) {
  XRUN_CHECK(tensor.is_contiguous(), "\"{}\": a broadcast needs a contiguous tensor", label);
  const at::Tensor bytes = bytes_of(tensor);
  record_.begin(label, bytes.numel());
  if (bytes.numel() != 0) finish({send_from(bytes, root)});
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
  record_.begin(label, to.numel() + from.numel());
  std::vector<Work> works = {backend_of(out).alltoall_base(to, from, out_bytes, in_bytes)};
  return std::make_unique<Pending>(*this, std::move(works), std::string(label), to.numel());
}

std::unique_ptr<PendingCollective> ProcessGroup::all_gather(std::string_view label,
                                                            const at::Tensor& out,
                                                            const std::vector<int64_t>& sizes,
                                                            const at::Tensor& in) {
  const std::vector<int64_t> bytes = byte_sizes(label, out, sizes, size());
  XRUN_CHECK(in.numel() == sizes[rank()] && in.scalar_type() == out.scalar_type(),
             "\"{}\": rank {} gives {} elements of {}, wanted {} of {}", label, rank(), in.numel(),
             c10::toString(in.scalar_type()), sizes[rank()], c10::toString(out.scalar_type()));
  const int64_t begin = std::accumulate(sizes.begin(), sizes.begin() + rank(), int64_t{0});
  at::Tensor own = out.detach().reshape({-1}).narrow(0, begin, sizes[rank()]);
  const at::Tensor from = in.detach().reshape({-1});
  if (own.data_ptr() != from.data_ptr()) own.copy_(from);
  const at::Tensor all = bytes_of(out);
  record_.begin(label, all.numel());
  return std::make_unique<Pending>(*this, gather_pieces(all, bytes), std::string(label),
                                   all.numel());
}

void ProcessGroup::barrier(std::string_view label) {
  record_.begin(label, 0);
  gather_texts("");
}

}  // namespace

std::unique_ptr<Ranks> join_ranks(const World& world, const JoinOptions& options) {
  auto store = open_store(world);
  meet(*store, world, options.program);
  auto host = make_gloo_backend(store, world.rank, world.size, own_address(world));
  return std::make_unique<ProcessGroup>(world, std::move(store), std::move(host),
                                        *options.record);
}

}  // namespace xrun
