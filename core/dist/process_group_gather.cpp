// A string travels in a fixed-size block; the rest follows in a second collective. A gather block
// carries its label's hash, because c10d cannot tell gathers apart and ranks in different ones
// would take each other's strings.

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/dist/process_group.h"

namespace xrun {

namespace {

// Most strings are short (errors, counts): one block each saves a collective for their lengths.
constexpr int64_t kBlockBytes = 512;
constexpr int64_t kTextBytes = kBlockBytes - static_cast<int64_t>(sizeof(int64_t));
// The header of a gather block; the string follows it.
struct GatherHead {
  int64_t length;
  uint64_t label;
};
constexpr int64_t kGatherBytes = kBlockBytes - static_cast<int64_t>(sizeof(GatherHead));

at::Tensor empty_bytes(int64_t size) { return at::empty({size}, at::kByte); }

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "));
}

char* text_data(const at::Tensor& bytes) { return static_cast<char*>(bytes.mutable_data_ptr()); }

}  // namespace

std::vector<ProcessGroup::Work> ProcessGroup::gather_pieces(const at::Tensor& bytes,
                                                            const std::vector<int64_t>& sizes) {
  std::vector<Work> works;
  // Every rank has the same sizes, so all of them skip the collective.
  if (total_size(sizes) == 0) return works;
  // NCCL makes one operation of the broadcasts.
  const LockedBackend locked = backend_of(bytes);
  c10d::Backend& backend = locked.backend;
  const bool together = backend.supportsCoalescing();
  if (together) backend.startCoalescing();
  int64_t begin = 0;
  for (int64_t r = 0; r < size(); ++r) {
    const int64_t count = sizes[r];
    // One broadcast by each rank, since pieces may differ in size.
    if (count != 0) works.push_back(send_from(backend, bytes.narrow(0, begin, count), r));
    begin += count;
  }
  if (together) works = {backend.endCoalescing()};
  return works;
}

std::vector<std::string> ProcessGroup::gather_texts(const StartedCall& call,
                                                    const std::string& text,
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
    // Checked before the length is used: in another call the block means something else.
    if (of.label != head.label) explain_difference(call, r);
    lengths[r] = of.length;
    XRUN_CHECK(lengths[r] >= 0, "\"{}\": rank {} made a different call", call.label, r);
    const int64_t inside = std::min(lengths[r], kGatherBytes);
    out[r].assign(block + sizeof of, inside);
    rests[r] = lengths[r] - inside;
  }
  if (total_size(rests) == 0) return out;
  // All ranks have all heads now and agree on whether there is a second collective.
  const at::Tensor rest = empty_bytes(total_size(rests));
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
  const StartedCall call = begin(label, static_cast<int64_t>(text.size()), "gather of strings");
  return gather_texts(call, text, label);
}

std::string ProcessGroup::broadcast(std::string_view label, const std::string& text, int64_t root) {
  const StartedCall call = begin(label, static_cast<int64_t>(text.size()),
                                 fmt::format("broadcast of a string from rank {}", root));
  auto length = static_cast<int64_t>(text.size());
  const at::Tensor block = empty_bytes(kBlockBytes);
  if (rank() == root) {
    std::memcpy(text_data(block), &length, sizeof length);
    std::memcpy(text_data(block) + sizeof length, text.data(), std::min(length, kTextBytes));
  }
  finish(call, {send_from(*host_, block, root)});
  std::memcpy(&length, text_data(block), sizeof length);
  const int64_t inside = std::min(length, kTextBytes);
  std::string out(text_data(block) + sizeof length, inside);
  // The length came with the block, so the receivers know whether more follows.
  if (length == inside) return out;
  const at::Tensor rest = empty_bytes(length - inside);
  if (rank() == root) std::memcpy(text_data(rest), text.data() + inside, length - inside);
  finish(call, {send_from(*host_, rest, root)});
  out.append(text_data(rest), length - inside);
  return out;
}

void ProcessGroup::broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) {
  XRUN_CHECK(tensor.is_contiguous(), "\"{}\": a broadcast needs a contiguous tensor", label);
  const at::Tensor bytes = byte_view(tensor);
  StartedCall call = begin(label, bytes.numel(),
                           fmt::format("broadcast of {} from rank {}", shape_text(tensor), root));
  call.on_device = !tensor.device().is_cpu();
  // Empty on every rank, or the ranks differ in shape, which `check` reports.
  if (bytes.numel() == 0) return;
  const Work work = send_from(backend_of(bytes).backend, bytes, root);
  finish(call, {work});
}

}  // namespace xrun
