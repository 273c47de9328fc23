// value(row) = sum of log p over the row's trained tokens, from one forward of the frozen weights
// over the canonical pack of the row: a function of (weights, data, settings) and nothing else.

#include "core/train/models/frozen_logprobs.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/model/model.h"
#include "core/model/weights/hf_config.h"
#include "core/train/batches/micro_batch.h"
#include "kernels/cpu/kernels.h"

namespace xrun {
namespace {

// Raised when the same key gives other values. 2: the head multiplies by oneDNN; 3: canonical
// packs.
constexpr int64_t kFormat = 3;
// Tokens of a canonical pack. Enough that products are efficient, few enough that the first steps
// of a shuffled run do not wait for many rows that they do not visit.
constexpr int64_t kCanonicalTokens = 2048;
// Values held in memory before they are written; a kill may lose as many.
constexpr size_t kFlushAt = 64;
// Values that wait on a device before they are copied; an evaluation may make any number.
constexpr size_t kCopyAt = 1024;

// A segment and, if it is a side of a pair, the other side: chosen, then rejected.
std::vector<size_t> whole_unit(const PackedBatch& pack, size_t segment) {
  if (pack.side[segment] == 0) return {segment};
  std::optional<size_t> chosen, rejected;
  for (size_t s = 0; s < pack.pair_id.size(); ++s) {
    if (pack.pair_id[s] != pack.pair_id[segment]) continue;
    (pack.side[s] > 0 ? chosen : rejected) = s;
  }
  // A canonical value is of the whole pair, so that either side gives it the same neighbours.
  XRUN_CHECK(chosen && rejected, "segment {} of a micro-batch lacks the other side of its pair",
             segment);
  return {*chosen, *rejected};
}

// Runs the frozen weights over a pack and returns the sum of each segment, [S] on the device.
at::Tensor sums_of(Model& model, int64_t head_mb, BatchInfo info, PackedBatch pack) {
  // A stored value must not depend on the setting: only in fp32 on a CPU has folding no effect on
  // its bits.
  if (!model.device().is_cpu() || model.compute_type() != at::kFloat) info.fold = {};
  info.device = model.device();  // which may differ from the batch's
  const auto micro = std::make_shared<MicroBatch>(
      std::move(pack), std::make_shared<const BatchInfo>(std::move(info)), /*index=*/0);
  return micro->all().sum(micro->token_logprob(model, head_mb));
}

// Joins 0-dim values, some on the host, into one tensor [n] on a device without waiting.
at::Tensor together(const std::vector<at::Tensor>& values, c10::Device device) {
  std::vector<float> host;
  for (const at::Tensor& value : values)
    host.push_back(value.is_cpu() ? value.item<float>() : 0.0f);
  const at::Tensor known =
      on_device(at::tensor(host, at::TensorOptions().dtype(at::kFloat)), device);
  if (device.is_cpu()) return known;
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < values.size(); ++i) {
    parts.push_back(values[i].is_cpu() ? known[static_cast<int64_t>(i)] : values[i]);
  }
  return parts.empty() ? known : at::stack(parts);
}

}  // namespace

int64_t canonical_tokens(int64_t max_tokens) {
  return max_tokens > 0 ? std::min(max_tokens, kCanonicalTokens) : kCanonicalTokens;
}

SidecarKey frozen_key(const std::string& name, int64_t format, const FrozenSource& source,
                      const std::string& data_key, int64_t pack_tokens) {
  const FrozenSettings settings = source.settings();
  SidecarKey key;
  key.name = name;
  key.made_by.set("format", format);
  key.made_by.set("weights", source.digest());
  key.made_by.set("data", data_key);
  key.made_by.set("pack_tokens", pack_tokens);
  key.made_by.set("dtype", dtype_name(settings.dtype));
  key.made_by.set("gemm", gemm_name(settings.gemm));
  // Threads, processor and head_mb may each change last digits; a warm cache must not change a bit.
  key.made_by.set("threads", at::get_num_threads());
  key.made_by.set("device", c10::DeviceTypeName(settings.device.type(), /*lower_case=*/true));
  key.made_by.set("processor",
                  fmt::format("{} {}", at::get_cpu_capability(), kernels::cpu_kernels().name));
  key.made_by.set("head_mb", settings.head_mb);
  key.made_by.set("torch", TORCH_VERSION);
  return key;
}

uint64_t stamp_of(const SegmentTokens& segment) {
  const std::string_view masks(reinterpret_cast<const char*>(segment.trained.data()),
                               segment.trained.size());
  const std::string_view bytes(reinterpret_cast<const char*>(segment.ids.data()),
                               4 * segment.ids.size());
  return hash_u64(fmt::format("{:016x}{:016x}", hash_u64(bytes), hash_u64(masks)));
}

FrozenLogprobs::FrozenLogprobs(FrozenSource source) : source_(std::move(source)) {}

FrozenLogprobs::~FrozenLogprobs() {
  try {
    flush();
  } catch (const std::exception&) {
    // A lost value is computed again; a destructor has nobody to tell.
  }
}

SidecarKey FrozenLogprobs::key(const std::string& data_key, int64_t max_tokens) const {
  return frozen_key("reference_logprobs", kFormat, source_, data_key, canonical_tokens(max_tokens));
}

Sidecar& FrozenLogprobs::sidecar(const SidecarName& name) {
  // A sidecar stays open for the run: opening one reads its whole index.
  const auto known = sidecars_.find(name);
  if (known != sidecars_.end()) return *known->second;
  // Opened before it is entered, so that a sidecar that cannot be opened leaves no empty entry.
  auto opened = std::make_unique<Sidecar>(sidecar_root(), key(name.data_key, name.pack_tokens));
  if (!opened->damage().empty()) counts_.damage = opened->damage();
  return *sidecars_.emplace(name, std::move(opened)).first->second;
}

const Sidecar* FrozenLogprobs::known_sidecar(const std::string& data_key, int64_t max_tokens) {
  const SidecarName name{data_key, canonical_tokens(max_tokens)};
  const bool known =
      sidecars_.contains(name) || Sidecar::exists(sidecar_root(), key(data_key, max_tokens));
  if (!known) return nullptr;
  const Sidecar& found = sidecar(name);
  return found.size() > 0 ? &found : nullptr;
}

std::optional<at::Tensor> FrozenLogprobs::find(const NamedEntry& entry) {
  const auto waiting = waiting_.find(entry);
  if (waiting != waiting_.end()) return waiting->second;
  Sidecar& stored = sidecar(entry.sidecar);
  auto values = stored.find<float>(entry.entry);
  if (!values) {
    // Another rank may have computed it since; reading it costs less than a forward.
    stored.refresh();
    values = stored.find<float>(entry.entry);
  }
  if (!values) return std::nullopt;
  return at::scalar_tensor(values->front(), at::TensorOptions().dtype(at::kFloat));
}

void FrozenLogprobs::store(const NamedEntry& entry, const at::Tensor& value) {
  if (!value.is_cpu()) {
    // Reading it now would make the host wait for the device in the middle of a step.
    waiting_.insert_or_assign(entry, value);
    return;
  }
  Sidecar& known = sidecar(entry.sidecar);
  known.add<float>(entry.entry, std::array{value.item<float>()});
  // An fsync for each value would cost more than its forward.
  if (known.unsaved() >= kFlushAt) known.flush();
}

std::vector<FrozenLogprobs::NamedEntry> FrozenLogprobs::entries_of(const SidecarName& sidecar,
                                                                   const PackedBatch& pack) {
  std::vector<NamedEntry> entries;
  for (int64_t s = 0; s < pack.segment_count(); ++s) {
    const auto at = static_cast<size_t>(s);
    entries.push_back(
        {sidecar, {pack.row_id[at], pack.side[at], stamp_of(pack.segment_tokens(s))}});
  }
  return entries;
}

// Computes and stores the values of the pack that a segment's value comes from: the canonical pack
// of its row if the data set has one with these tokens, else the segment's pair or sequence alone.
std::map<FrozenLogprobs::NamedEntry, at::Tensor> FrozenLogprobs::compute(const MicroBatch& micro,
                                                                         const NamedEntry& wanted,
                                                                         size_t segment,
                                                                         bool storable) {
  const BatchInfo& info = micro.info();
  PackedBatch pack;
  std::vector<NamedEntry> entries;
  if (storable && info.canonical_pack) {
    pack = info.canonical_pack(wanted.entry.row, wanted.sidecar.pack_tokens);
    entries = entries_of(wanted.sidecar, pack);
  }
  if (std::find(entries.begin(), entries.end(), wanted) == entries.end()) {
    pack = PackedBatch();
    for (const size_t s : whole_unit(micro.pack(), segment)) {
      const SegmentTokens cut = micro.pack().segment_tokens(static_cast<int64_t>(s));
      PackedBatch::Segment alone;
      alone.row_id = micro.pack().row_id[s];
      alone.side = micro.pack().side[s];
      pack.append(alone, cut.ids, cut.trained);
    }
    entries = entries_of(wanted.sidecar, pack);
  }
  counts_.computed += pack.segment_count();
  const std::vector<at::Tensor> sums =
      sums_of(source_.model(), source_.settings().head_mb, info, std::move(pack)).unbind();
  std::map<NamedEntry, at::Tensor> values;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (storable) store(entries[i], sums[i]);
    values.emplace(entries[i], sums[i]);
  }
  return values;
}

at::Tensor FrozenLogprobs::logprob(const View& view) {
  const at::NoGradGuard no_grad;
  const MicroBatch& micro = view.micro();
  const PackedBatch& pack = micro.pack();
  const SidecarName name{micro.info().data_key, canonical_tokens(micro.info().max_tokens)};
  std::map<NamedEntry, at::Tensor> fresh;  // computed by this call
  std::vector<at::Tensor> out;
  for (const int64_t segment : view.rows().segments) {
    const auto s = static_cast<size_t>(segment);
    const NamedEntry entry{name,
                           {pack.row_id[s], pack.side[s], stamp_of(pack.segment_tokens(segment))}};
    // A batch made by hand has no key, and a negative row id belongs to no data set.
    const bool storable = !name.data_key.empty() && entry.entry.row >= 0;
    auto known = fresh.find(entry);
    if (known == fresh.end()) {
      if (const auto value = storable ? find(entry) : std::nullopt) {
        ++counts_.cached;
        out.push_back(*value);
        continue;
      }
      // Computes the whole canonical pack: its other rows are stored for later steps.
      fresh.merge(compute(micro, entry, s, storable));
      known = fresh.find(entry);
    }
    out.push_back(known->second);
  }
  if (waiting_.size() >= kCopyAt) flush_arrived();
  return together(out, micro.device());
}

void FrozenLogprobs::copy_waiting() {
  // One copy at a time: the next starts when this one has arrived.
  if (copied_ || waiting_.empty()) return;
  std::vector<NamedEntry> entries;
  std::vector<at::Tensor> values;
  for (const auto& [entry, value] : waiting_) {
    entries.push_back(entry);
    values.push_back(value);
  }
  copied_.emplace(HostValues{std::move(entries), HostCopy(at::stack(values))});
}

void FrozenLogprobs::store_copied() {
  const float* value = copied_->values.wait().const_data_ptr<float>();
  for (const NamedEntry& entry : copied_->entries) {
    sidecar(entry.sidecar).add<float>(entry.entry, std::array{*value++});
    waiting_.erase(entry);
  }
  copied_.reset();
}

void FrozenLogprobs::flush_sidecars() {
  for (auto& [key, sidecar] : sidecars_) sidecar->flush();
}

void FrozenLogprobs::flush() {
  while (!waiting_.empty()) {
    copy_waiting();
    store_copied();
  }
  flush_sidecars();
}

void FrozenLogprobs::flush_arrived() {
  if (copied_ && copied_->values.arrived()) store_copied();
  copy_waiting();
  flush_sidecars();
}

}  // namespace xrun
