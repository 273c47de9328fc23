// Two sources of one number. While the policy has not moved, its own forward; afterwards a forward
// of the frozen weights over the pair alone, cut out of the micro-batch that asks, so that the
// value is a function of (weights, tokens, settings) and nothing else.

#include "core/train/reference.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <torch/version.h>

#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/model/weights/hf_config.h"
#include "core/model/model.h"
#include "core/train/logprob_column.h"
#include "core/train/logprob_stand_in.h"
#include "core/train/micro_batch.h"
#include "core/train/policy.h"
#include "kernels/cpu/kernels.h"

namespace xrun {
namespace {

// Counts changes of the records or of the arithmetic behind them.
constexpr int64_t kFormat = 2;  // 2: the head multiplies by oneDNN
// Values kept in memory before they are written: what a kill may cost.
constexpr size_t kFlushAt = 64;
// Values that wait on a device before they are copied; an evaluation may make any number.
constexpr size_t kCopyAt = 1024;

// Segments that form one pack of their own: both sides of a pair, or one sequence.
std::vector<size_t> canonical_segments(const PackedBatch& pack, size_t segment) {
  if (pack.side[segment] == 0) return {segment};
  std::optional<size_t> chosen, rejected;
  for (size_t s = 0; s < pack.pair_id.size(); ++s) {
    if (pack.pair_id[s] != pack.pair_id[segment]) continue;
    (pack.side[s] > 0 ? chosen : rejected) = s;
  }
  XRUN_CHECK(chosen && rejected, "segment {} of a micro-batch lacks the other side of its pair",
             segment);
  return {*chosen, *rejected};
}

uint64_t hash_of(const SegmentTokens& cut) {
  const std::string_view masks(reinterpret_cast<const char*>(cut.trained.data()),
                               cut.trained.size());
  const std::string_view bytes(reinterpret_cast<const char*>(cut.ids.data()), 4 * cut.ids.size());
  return hash_u64(fmt::format("{:016x}{:016x}", hash_u64(bytes), hash_u64(masks)));
}

// Runs the frozen weights over some segments alone and returns each one's sum, on the device.
at::Tensor compute_alone(Model& model, int64_t head_mb, const MicroBatch& micro,
                         const std::vector<SegmentTokens>& cuts) {
  PackedBatch alone;
  for (const SegmentTokens& cut : cuts) alone.append({}, cut.ids, cut.trained);
  const auto info = std::make_shared<const BatchInfo>(micro.info());
  const auto canonical = std::make_shared<MicroBatch>(std::move(alone), info, 0);
  return canonical->all().sum(canonical->token_logprob(model, head_mb));
}

// 0-dim values, some of the host, as one tensor [n] of a device, without a wait.
at::Tensor together(const std::vector<at::Tensor>& values, c10::Device device) {
  std::vector<float> host;
  for (const at::Tensor& one : values) host.push_back(one.is_cpu() ? one.item<float>() : 0.0f);
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
  return policy_->update_count() == updates_ && !policy_->has_noise();
}

const std::string& Reference::digest() {
  if (digest_.empty()) digest_ = policy_->initial_digest();
  return digest_;
}

Model& Reference::frozen() {
  if (!model_) {
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

Model& Reference::model() { return shares() ? policy_->model() : frozen(); }

void Reference::check_digest() {
  if (!model_ && !shares()) return;
  const std::string now = model_ ? model_->digest() : policy_->digest();
  XRUN_CHECK(now == digest(),
             "the frozen weights of the reference changed in memory (digest {}, wanted {}): what "
             "was trained against them is not to be trusted",
             now, digest());
}

Json Reference::column_key(const std::string& data_key) {
  const PolicyOptions& options = policy_->options();
  Json key = Json::object();
  key.set("format", kFormat);
  key.set("weights", digest());
  key.set("data", data_key);
  key.set("dtype", dtype_name(options.dtype));
  key.set("gemm", gemm_name(options.gemm));
  key.set("threads", at::get_num_threads());
  key.set("device", c10::DeviceTypeName(options.device.type(), /*lower_case=*/true));
  key.set("processor", fmt::format("{} {}", at::get_cpu_capability(), kernels::cpu_kernels().name));
  key.set("head_mb", options.head_mb);
  key.set("torch", TORCH_VERSION);
  return key;
}

LogprobColumn& Reference::column(const std::string& data_key) {
  const auto known = columns_.find(data_key);
  if (known != columns_.end()) return *known->second;
  // Opened before it is entered: a column that cannot be opened leaves no empty place behind.
  auto opened = std::make_unique<LogprobColumn>(columns_dir(), column_key(data_key));
  return *columns_.emplace(data_key, std::move(opened)).first->second;
}

const LogprobColumn* Reference::known_column(const std::string& data_key) {
  const bool known = columns_.contains(data_key) || has_column(columns_dir(), column_key(data_key));
  if (!known) return nullptr;
  const LogprobColumn& found = column(data_key);
  return found.size() > 0 ? &found : nullptr;
}

std::optional<at::Tensor> Reference::find(const Place& place) {
  if (const auto value = column(place.data_key).find(place.row, place.side, place.tokens)) {
    return at::scalar_tensor(*value, at::TensorOptions().dtype(at::kFloat));
  }
  const auto waiting = waiting_.find(place);
  return waiting == waiting_.end() ? std::nullopt : std::optional(waiting->second);
}

void Reference::store(const Place& place, const at::Tensor& value) {
  if (!value.is_cpu()) {
    waiting_.insert_or_assign(place, value);
    return;
  }
  LogprobColumn& known = column(place.data_key);
  known.add(place.row, place.side, place.tokens, value.item<float>());
  if (known.unsaved() >= kFlushAt) known.flush();
}

at::Tensor Reference::column_values(const View& view) {
  const MicroBatch& micro = view.micro();
  const PackedBatch& pack = micro.pack();
  const std::string& key = micro.info().data_key;
  std::map<size_t, at::Tensor> known;  // 0-dim, by segment of the micro-batch
  for (int64_t segment : view.rows().segments) {
    const auto asked = static_cast<size_t>(segment);
    if (known.count(asked) != 0) continue;
    const std::vector<size_t> group = canonical_segments(pack, asked);
    const bool storable = !key.empty() && pack.row_id[asked] >= 0;
    std::vector<SegmentTokens> cuts;
    std::vector<Place> places;
    std::vector<at::Tensor> values;
    for (size_t s : group) {
      cuts.push_back(pack.segment_tokens(static_cast<int64_t>(s)));
      places.push_back({key, pack.row_id[asked], pack.side[s], hash_of(cuts.back())});
      const auto value = storable ? find(places.back()) : std::nullopt;
      if (value) values.push_back(*value);
    }
    const bool hit = values.size() == group.size();
    if (!hit) {
      values = compute_alone(frozen(), policy_->options().head_mb, micro, cuts).unbind();
      for (size_t i = 0; storable && i < group.size(); ++i) store(places[i], values[i]);
    }
    for (size_t i = 0; i < group.size(); ++i) known[group[i]] = values[i];
    (hit ? counts_.cached : counts_.computed) += static_cast<int64_t>(group.size());
  }
  if (waiting_.size() >= kCopyAt) flush_arrived();
  std::vector<at::Tensor> out;
  for (int64_t segment : view.rows().segments) out.push_back(known[static_cast<size_t>(segment)]);
  return together(out, micro.device());
}

at::Tensor Reference::logprob(const View& view) {
  if (stand_in_) return stand_in_->logprob(view);
  if (shares()) {
    counts_.shared += view.size();
    return view.sum(token_logprob(view));
  }
  const at::NoGradGuard no_grad;
  return column_values(view);
}

at::Tensor Reference::token_logprob(const View& view) {
  if (stand_in_) return stand_in_->token_logprob(view);
  const int64_t head_mb = policy_->options().head_mb;
  // The policy's own forward, with its graph if the policy will ask for it: one forward for both.
  if (shares()) {
    return view.select_rows(view.micro().token_logprob(policy_->model(), head_mb).detach());
  }
  const at::NoGradGuard no_grad;
  return view.select_rows(view.micro().token_logprob(frozen(), head_mb));
}

void Reference::copy_waiting() {
  if (copied_ || waiting_.empty()) return;
  std::vector<Place> places;
  std::vector<at::Tensor> values;
  for (const auto& [place, value] : waiting_) {
    places.push_back(place);
    values.push_back(value);
  }
  copied_.emplace(Copied{std::move(places), HostCopy(at::stack(values))});
}

void Reference::store_copied() {
  const float* value = copied_->values.wait().const_data_ptr<float>();
  for (const Place& place : copied_->places) {
    column(place.data_key).add(place.row, place.side, place.tokens, *value++);
    waiting_.erase(place);
  }
  copied_.reset();
}

void Reference::flush_columns() {
  for (auto& [key, column] : columns_) column->flush();
}

void Reference::flush() {
  while (!waiting_.empty()) {
    copy_waiting();
    store_copied();
  }
  flush_columns();
}

void Reference::flush_arrived() {
  if (copied_ && copied_->values.arrived()) store_copied();
  copy_waiting();
  flush_columns();
}

}  // namespace xrun
