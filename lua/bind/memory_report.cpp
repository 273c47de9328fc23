#include "lua/bind/memory_report.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>

#include "core/model/adapter.h"
#include "core/model/hf_config.h"
#include "core/model/memory_count.h"
#include "core/model/memory_limit.h"
#include "core/train/policy.h"
#include "lua/bind/run_loop.h"

namespace xrun {

namespace {

constexpr int64_t kSampled = 16;  // steps of a loop that are packed to know their sizes

MemoryShape shape_of(const Policy& policy) {
  const PolicyOptions& options = policy.options();
  MemoryShape shape;
  shape.dtype = options.dtype;
  shape.gemm = options.gemm;
  shape.head_mb = options.head_mb;
  shape.recompute = options.recompute;
  shape.adapter = options.lora;
  return shape;
}

// The largest micro-batch and the longest pair or sequence of some steps.
struct StepSizes {
  int64_t tokens = 0, loss_rows = 0, longest = 0;
  size_t micros = 0;
};

void add_pack(const PackedBatch& pack, StepSizes& sizes) {
  sizes.tokens = std::max(sizes.tokens, pack.token_count());
  sizes.loss_rows = std::max(sizes.loss_rows, pack.rows.size());
  std::map<int64_t, int64_t> of_pair;
  for (size_t s = 0; s < pack.row_id.size(); ++s) {
    const int64_t n = pack.cu_seqlens[s + 1] - pack.cu_seqlens[s];
    const int64_t whole = pack.pair_id[s] < 0 ? n : of_pair[pack.pair_id[s]] += n;
    sizes.longest = std::max(sizes.longest, whole);
  }
}

StepSizes sizes_of(const StepLoop& loop) {
  StepSizes sizes;
  const int64_t steps = std::min(loop.steps, kSampled);
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t step = k * loop.steps / steps;
    size_t micros = 0;
    for (const StepSource& source : loop.sources) {
      const DataSet& set = source.data->set;
      const auto packs = set.pack(set.step_units(source.plan, step), loop.max_tokens);
      for (const PackedBatch& pack : packs) add_pack(pack, sizes);
      micros += packs.size();
    }
    sizes.micros = std::max(sizes.micros, micros);
  }
  return sizes;
}

Json to_object(const std::vector<MemoryKind>& kinds, int64_t total) {
  Json object = Json::object();
  object.set("total", total);
  for (const MemoryKind& kind : kinds) object.set(kind.name, kind.bytes);
  return object;
}

int64_t resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;  // Linux counts KiB
}

// Adds kinds to those of the same name.
void join(std::vector<MemoryKind>& all, const std::vector<MemoryKind>& more) {
  for (const MemoryKind& kind : more) {
    const auto known = std::find_if(all.begin(), all.end(),
                                    [&](const MemoryKind& one) { return one.name == kind.name; });
    if (known == all.end()) {
      all.push_back(kind);
    } else {
      known->bytes += kind.bytes;
    }
  }
}

}  // namespace

void check_before_load(const Policy& policy) {
  if (policy.loaded() || (policy.trains_adapter() && !policy.options().lora)) return;
  check_memory(read_model_config(policy.dir()), shape_of(policy), /*longest=*/0, /*held=*/0,
               available_bytes());
}

MemoryReport MemoryReport::plan(const std::vector<std::shared_ptr<Policy>>& policies,
                                const StepLoop& loop, bool references) {
  const StepSizes sizes = sizes_of(loop);
  const int64_t available = available_bytes();
  MemoryReport report;
  for (const auto& policy : policies) {
    MemoryShape shape = shape_of(*policy);
    shape.tokens = sizes.tokens;
    shape.loss_rows = sizes.loss_rows;
    shape.several = sizes.micros > 1;
    shape.reference = references;
    if (policy->model().adapter()) shape.adapter = policy->model().adapter()->options;
    const ModelConfig& config = policy->model().config();
    check_memory(config, shape, sizes.longest, memory_count().held, available);
    join(report.planned_, memory_plan(config, shape));
    for (const Parameter& one : policy->model().parameters()) {
      report.weights_ += static_cast<int64_t>(one.master.nbytes());
    }
  }
  reset_memory_peak();
  return report;
}

int64_t MemoryReport::measured() const { return memory_count().peak; }

Json MemoryReport::to_json() const {
  const int64_t most = measured();
  Json json = Json::object();
  json.set("planned", to_object(planned_, total_bytes(planned_)));
  json.set("measured", to_object({{"weights", weights_},
                                  {"rest", std::max<int64_t>(most - weights_, 0)},
                                  {"rss", resident_bytes()}},
                                 most));
  return json;
}

}  // namespace xrun
