// Random pairs and DPO in C++, for tests of the step.

#include "tests/core/train/tiny_pairs.h"

#include <ATen/ops/log_sigmoid.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/model/weights/init_model.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"

namespace xrun {
namespace {

std::vector<int32_t> ids(uint64_t seed, uint64_t what, int64_t low, int64_t high) {
  const auto span = static_cast<uint64_t>(high - low + 1);
  const auto length = low + static_cast<int64_t>(philox_u64(seed, 99, what, 0) % span);
  std::vector<int32_t> out;
  for (int64_t i = 0; i < length; ++i) {
    out.push_back(static_cast<int32_t>(philox_u64(seed, 98, what, static_cast<uint64_t>(i)) % 250));
  }
  return out;
}

void append_side(PackedBatch& pack, const TinyPair& pair, int64_t id, int8_t side) {
  std::vector<int32_t> tokens = pair.prompt;
  const std::vector<int32_t>& response = side > 0 ? pair.chosen : pair.rejected;
  tokens.insert(tokens.end(), response.begin(), response.end());
  std::vector<uint8_t> trained(tokens.size(), 0);
  std::fill(trained.begin() + static_cast<int64_t>(pair.prompt.size()), trained.end(), 1);
  PackedBatch::Segment segment;
  segment.row_id = segment.pair_id = segment.group_id = id;
  segment.segment_id = 2 * id + (side < 0 ? 1 : 0);
  segment.side = side;
  segment.weight = pair.weight;
  pack.append(segment, tokens, trained);
}

}  // namespace

std::vector<TinyPair> tiny_pairs(int64_t n, uint64_t seed) {
  std::vector<TinyPair> pairs;
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<uint64_t>(3 * i);
    pairs.push_back({ids(seed, at, 2, 9), ids(seed, at + 1, 1, 12), ids(seed, at + 2, 1, 20)});
  }
  return pairs;
}

std::vector<TinyPair> shared_prefix_pairs(int64_t n, uint64_t seed, int32_t vocab) {
  std::vector<TinyPair> pairs = tiny_pairs(n, seed);
  for (size_t i = 0; i < pairs.size(); ++i) {
    TinyPair& pair = pairs[i];
    if (i % 2 == 1) pair.prompt = pairs[i - 1].prompt;
    const auto shared = std::min<std::ptrdiff_t>(2, std::ssize(pair.chosen));
    pair.rejected.insert(pair.rejected.begin(), pair.chosen.begin(), pair.chosen.begin() + shared);
    for (auto* side : {&pair.prompt, &pair.chosen, &pair.rejected}) {
      for (int32_t& id : *side) id %= vocab;
    }
  }
  return pairs;
}

std::vector<PackedBatch> tiny_packs(const std::vector<TinyPair>& pairs, size_t per_pack,
                                    bool reversed) {
  std::vector<PackedBatch> packs;
  for (size_t begin = 0; begin < pairs.size(); begin += per_pack) {
    const size_t end = std::min(pairs.size(), begin + per_pack);
    PackedBatch pack;
    for (size_t i = begin; i < end; ++i) {
      const size_t at = reversed ? end - 1 - (i - begin) : i;
      append_side(pack, pairs[at], static_cast<int64_t>(at), 1);
      append_side(pack, pairs[at], static_cast<int64_t>(at), -1);
    }
    packs.push_back(std::move(pack));
  }
  return packs;
}

std::shared_ptr<Batch> tiny_batch(const std::vector<TinyPair>& pairs, size_t per_pack,
                                  BatchInfo info) {
  if (info.total_steps == 0) info.total_steps = 10;
  return std::make_shared<Batch>(std::move(info), tiny_packs(pairs, per_pack));
}

BatchInfo fold_info(FoldMode mode, int64_t min_run) {
  BatchInfo info;
  info.fold.mode = mode;
  info.fold.min_run = min_run;
  return info;
}

TinyFolder::TinyFolder() {
  static int count = 0;
  path_ =
      std::filesystem::temp_directory_path() / fmt::format("xrun_train_{}_{}", getpid(), count++);
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_);
  setenv("XRUN_CACHE", (path_ / "cache").c_str(), 1);
}

TinyFolder::~TinyFolder() {
  unsetenv("XRUN_CACHE");
  std::filesystem::remove_all(path_);
}

std::filesystem::path TinyFolder::model(uint64_t seed) const {
  InitOptions options;
  options.hidden = 32;
  options.ffn = 64;
  options.scale = 0.2;
  options.seed = seed;
  const std::filesystem::path dir = path_ / fmt::format("model_{}", seed);
  try {
    if (!std::filesystem::exists(dir)) init_model(dir, options);
  } catch (const Error&) {
    // The ranks of a test may all come here at once: another one was faster.
    if (!std::filesystem::exists(dir)) throw;
  }
  return dir;
}

Objective dpo(std::shared_ptr<Policy> policy, std::shared_ptr<Reference> reference, double beta) {
  return [=](MicroBatch& p) {
    const View c = p.chosen(), r = p.rejected();
    const at::Tensor chosen = policy->logprob(c).sub(reference->logprob(c));
    const at::Tensor rejected = policy->logprob(r).sub(reference->logprob(r));
    const at::Tensor margin = chosen.sub(rejected).mul(beta);
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, at::log_sigmoid(margin).neg());
    result.metrics.emplace_back("margin", margin);
    result.metrics.emplace_back("accuracy", margin.sign().add(1).div(2));
    result.metrics.emplace_back("reward_chosen", chosen.mul(beta));
    result.metrics.emplace_back("reward_rejected", rejected.mul(beta));
    return result;
  };
}

Objective infinite_slope(std::shared_ptr<Policy> policy, int64_t first) {
  return [policy, first](MicroBatch& micro) {
    const at::Tensor logprob = policy->logprob(micro.chosen());
    const at::Tensor rest = micro.chosen().field("pair").lt(first).to(at::kFloat);
    ObjectiveResult result;
    result.losses.emplace_back(Unit::kPair, logprob.sub(logprob.detach()).add(rest).sqrt());
    return result;
  };
}

}  // namespace xrun
