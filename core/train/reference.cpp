// Until the policy moves, the policy's own forward. Afterwards a forward of the frozen weights over
// the canonical pack of the row, so that a value is a function of (weights, data, settings) and
// nothing else.

#include "core/train/reference.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/model/model.h"
#include "core/model/weights/hf_config.h"
#include "core/train/micro_batch.h"
#include "core/train/policy.h"
#include "core/train/view_head.h"
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

// The stamp of a segment: a hash of its tokens and of those that are trained. A row whose text or
// template has changed misses its old value.
uint64_t stamp_of(const SegmentTokens& cut) {
  const std::string_view masks(reinterpret_cast<const char*>(cut.trained.data()),
                               cut.trained.size());
  const std::string_view bytes(reinterpret_cast<const char*>(cut.ids.data()), 4 * cut.ids.size());
  return hash_u64(fmt::format("{:016x}{:016x}", hash_u64(bytes), hash_u64(masks)));
}

// Runs the frozen weights over a pack and returns the sum of each segment, [S] on the device.
at::Tensor sums_of(Model& model, int64_t head_mb, BatchInfo info, PackedBatch pack) {
  // A stored value must not depend on the setting: only in fp32 on a CPU has folding no effect on
  // its bits.
  if (!model.device().is_cpu() || model.compute_type() != at::kFloat) info.fold = {};
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

Reference::Reference(std::shared_ptr<Policy> policy, std::filesystem::path weights,
                     std::string digest, int64_t updates)
    : policy_(std::move(policy)),
      weights_(std::move(weights)),
      digest_(std::move(digest)),
      updates_(updates) {}

Reference::~Reference() {
  try {
    flush();
  } catch (const std::exception&) {
    // A lost value is computed again; a destructor has nobody to tell.
  }
}

bool Reference::shares() const {
  // Dropout makes the policy's forward another function than the frozen weights.
  return policy_->update_count() == updates_ && !policy_->has_noise();
}

// Asked for late: the policy's weights are hashed when they load.
const std::string& Reference::digest() {
  if (digest_.empty()) digest_ = policy_->initial_digest();
  return digest_;
}

Model& Reference::frozen() {
  if (!model_) {
    // The folder may have changed since the run began.
    const std::string& wanted = digest();
    std::shared_ptr<Model> model = policy_->load_frozen(weights_);
    const std::string got = model->digest();
    XRUN_CHECK(got == wanted,
               "{}: the weights in this folder changed since the reference was taken (digest {}, "
               "wanted {}); restore the folder or begin a new run",
               weights_.string(), got, wanted);
    model_ = std::move(model);
  }
  return *model_;
}

Model& Reference::own_model() { return shares() ? policy_->model() : frozen(); }

void Reference::check_digest() {
  if (!model_ && !shares()) return;
  const std::string now = model_ ? model_->digest() : policy_->digest();
  XRUN_CHECK(now == digest(),
             "the frozen weights of the reference changed in memory (digest {}, wanted {}): do not "
             "trust what was trained against them",
             now, digest());
}

int64_t Reference::canonical_tokens(int64_t max_tokens) {
  return max_tokens > 0 ? std::min(max_tokens, kCanonicalTokens) : kCanonicalTokens;
}

SidecarKey Reference::sidecar_key(const std::string& data_key, int64_t max_tokens) {
  const PolicyOptions& options = policy_->options();
  SidecarKey key;
  key.name = "reference_logprobs";
  key.made_by.set("format", kFormat);
  key.made_by.set("weights", digest());
  key.made_by.set("data", data_key);
  key.made_by.set("pack_tokens", canonical_tokens(max_tokens));
  key.made_by.set("dtype", dtype_name(options.dtype));
  key.made_by.set("gemm", gemm_name(options.gemm));
  // Threads, processor and head_mb may each change last digits; a warm cache must not change a bit.
  key.made_by.set("threads", at::get_num_threads());
  key.made_by.set("device", c10::DeviceTypeName(options.device.type(), /*lower_case=*/true));
  key.made_by.set("processor",
                  fmt::format("{} {}", at::get_cpu_capability(), kernels::cpu_kernels().name));
  key.made_by.set("head_mb", options.head_mb);
  key.made_by.set("torch", TORCH_VERSION);
  return key;
}

Sidecar& Reference::sidecar(const SidecarName& name) {
  // A sidecar stays open for the run: opening one reads its whole index.
  const auto known = sidecars_.find(name);
  if (known != sidecars_.end()) return *known->second;
  // Opened before it is entered, so that a sidecar that cannot be opened leaves no empty entry.
  auto opened =
      std::make_unique<Sidecar>(sidecar_root(), sidecar_key(name.data_key, name.pack_tokens));
  return *sidecars_.emplace(name, std::move(opened)).first->second;
}

const Sidecar* Reference::known_sidecar(const std::string& data_key, int64_t max_tokens) {
  const SidecarName name{data_key, canonical_tokens(max_tokens)};
  const bool known = sidecars_.contains(name) ||
                     Sidecar::exists(sidecar_root(), sidecar_key(data_key, max_tokens));
  if (!known) return nullptr;
  const Sidecar& found = sidecar(name);
  return found.size() > 0 ? &found : nullptr;
}

std::optional<at::Tensor> Reference::find(const NamedEntry& entry) {
  if (const auto values = sidecar(entry.sidecar).find<float>(entry.entry)) {
    return at::scalar_tensor(values->front(), at::TensorOptions().dtype(at::kFloat));
  }
  const auto waiting = waiting_.find(entry);
  return waiting == waiting_.end() ? std::nullopt : std::optional(waiting->second);
}

void Reference::store(const NamedEntry& entry, const at::Tensor& value) {
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

std::vector<Reference::NamedEntry> Reference::entries_of(const SidecarName& sidecar,
                                                         const PackedBatch& pack) {
  std::vector<NamedEntry> entries;
  for (int64_t s = 0; s < pack.segment_count(); ++s) {
    const auto at = static_cast<size_t>(s);
    entries.push_back(
        {sidecar, {pack.row_id[at], pack.side[at], stamp_of(pack.segment_tokens(s))}});
  }
  return entries;
}

// Computes the pack that a segment's value comes from and stores what it gives: the canonical pack
// of its row where the data set has one with these tokens, else the segment's pair or sequence
// alone.
std::map<Reference::NamedEntry, at::Tensor> Reference::compute(const MicroBatch& micro,
                                                               const NamedEntry& wanted,
                                                               size_t segment, bool storable) {
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
      sums_of(frozen(), policy_->options().head_mb, info, std::move(pack)).unbind();
  std::map<NamedEntry, at::Tensor> values;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (storable) store(entries[i], sums[i]);
    values.emplace(entries[i], sums[i]);
  }
  return values;
}

at::Tensor Reference::sidecar_values(const View& view) {
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

at::Tensor Reference::own_logprob(const View& view) {
  if (shares()) {
    counts_.shared += view.size();
    return view.sum(own_token_logprob(view));
  }
  const at::NoGradGuard no_grad;
  return sidecar_values(view);
}

at::Tensor Reference::own_token_logprob(const View& view) {
  const int64_t head_mb = policy_->options().head_mb;
  // The policy's own forward, with its graph if the policy will ask for it: one forward for both.
  if (shares()) {
    // Detached: the reference is a constant although it shares the graph.
    return view.select_rows(view.micro().token_logprob(policy_->model(), head_mb).detach());
  }
  const at::NoGradGuard no_grad;
  return view.select_rows(view.micro().token_logprob(frozen(), head_mb));
}

HeadResult Reference::own_head(const View& view, const HeadOptions& options,
                               const at::Tensor& target) {
  // While the forward is shared it keeps its graph, since the objective asks the policy for it too.
  view.micro().hidden(model());
  const at::NoGradGuard no_grad;
  return view_head(model(), view, options, target, /*head_mb=*/0);
}

at::Tensor Reference::own_logits(const View& view) {
  const at::NoGradGuard no_grad;
  return view_logits(model(), view);
}

at::Tensor Reference::own_score(const View& view, const ScoreWeight& weight) {
  view.micro().hidden(model());  // with its graph, as in own_head
  const at::NoGradGuard no_grad;
  return view_score(model(), view, weight);
}

void Reference::copy_waiting() {
  // One copy at a time: the next starts when this one has arrived.
  if (copied_ || waiting_.empty()) return;
  std::vector<NamedEntry> entries;
  std::vector<at::Tensor> values;
  for (const auto& [entry, value] : waiting_) {
    entries.push_back(entry);
    values.push_back(value);
  }
  copied_.emplace(Copied{std::move(entries), HostCopy(at::stack(values))});
}

void Reference::store_copied() {
  const float* value = copied_->values.wait().const_data_ptr<float>();
  for (const NamedEntry& entry : copied_->entries) {
    sidecar(entry.sidecar).add<float>(entry.entry, std::array{*value++});
    waiting_.erase(entry);
  }
  copied_.reset();
}

void Reference::flush_sidecars() {
  for (auto& [key, sidecar] : sidecars_) sidecar->flush();
}

void Reference::flush() {
  while (!waiting_.empty()) {
    copy_waiting();
    store_copied();
  }
  flush_sidecars();
}

void Reference::flush_arrived() {
  if (copied_ && copied_->values.arrived()) store_copied();
  copy_waiting();
  flush_sidecars();
}

}  // namespace xrun
