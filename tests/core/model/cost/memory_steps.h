#pragma once
// Steps whose memory is planned and measured.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/model/cost/memory_plan.h"
#include "core/model/ops/allocator.h"
#include "core/model/ops/scratch.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/init_model.h"
#include "tests/core/train/trained.h"

namespace xrun {

constexpr int64_t kSegmentTokens = 128;

// The reference values that DPO reads: none (another objective), values that the frozen twin
// computes, or those that an earlier run left in the sidecar.
enum class ReferenceSidecar { kNone, kCold, kWarm };

struct MemoryCase {
  std::string name;
  InitOptions init;
  PolicyOptions options = {};
  int64_t segments = 4, micros = 1;
  ReferenceSidecar sidecar = ReferenceSidecar::kNone;
};

inline void PrintTo(const MemoryCase& one, std::ostream* out) { *out << one.name; }

// A model with 4 blocks large enough that every part counts.
inline InitOptions shape_of(const std::string& preset) {
  InitOptions init = init_preset(preset);
  init.vocab = 4000;
  return init;
}

// `pairs`: each two of the segments are the sides of one.
inline PackedBatch pack_of(int64_t segments, int64_t first, bool pairs) {
  PackedBatch pack;
  for (int64_t s = 0; s < segments; ++s) {
    std::vector<int32_t> ids;
    std::vector<uint8_t> trained;
    for (int64_t t = 0; t < kSegmentTokens; ++t) {
      ids.push_back(static_cast<int32_t>((s * 131 + t * 17) % 3000));
      trained.push_back(t < kSegmentTokens / 2 ? 0 : 1);
    }
    PackedBatch::Segment segment;
    segment.row_id = segment.segment_id = first + s;
    if (pairs) {
      segment.row_id = segment.pair_id = (first + s) / 2;
      segment.side = s % 2 == 0 ? 1 : -1;
    }
    pack.append(segment, ids, trained);
  }
  return pack;
}

class MeasuredSteps {
 public:
  MeasuredSteps(const TinyFolder& folder, const MemoryCase& one) : case_(one) {
    tune_allocator();
    install_memory_count();
    const std::filesystem::path dir = folder.path() / "model";
    if (!std::filesystem::exists(dir)) init_model(dir, one.init);
    free_scratch();
    before_ = memory_count().held;
    policy_ = Policy::open(dir, one.options);
    AdamWOptions optim;
    optim.lr = 1e-3;
    adamw_ = std::make_unique<AdamW>(std::vector<std::shared_ptr<Trainable>>{policy_}, optim);
    if (one.sidecar != ReferenceSidecar::kNone) reference_ = policy_->reference();
  }

  void step() {
    BatchInfo info;
    info.total_steps = 10;
    info.unit = reference_ ? Unit::kPair : Unit::kSequence;
    if (case_.sidecar == ReferenceSidecar::kWarm) info.data_key = "rows";
    std::vector<PackedBatch> packs;
    for (int64_t m = 0; m < case_.micros; ++m) {
      packs.push_back(pack_of(case_.segments, m * case_.segments, reference_ != nullptr));
    }
    Batch batch(std::move(info), std::move(packs));
    const Objective likelihood = [this](MicroBatch& p) {
      ObjectiveResult result;
      result.losses.emplace_back(Unit::kSequence, policy_->logprob(p.all()).neg());
      return result;
    };
    train_step({{&batch, reference_ ? dpo(policy_, reference_, 0.1) : likelihood}}, adamw_.get());
  }
  bool has_twin() const { return reference_ != nullptr && reference_->loaded(); }

  // Returns the peak of the steps since the last reset_memory_peak.
  int64_t peak() const { return memory_count().peak - before_; }

  std::vector<MemoryKind> plan() const {
    const PackedBatch pack = pack_of(case_.segments, 0, reference_ != nullptr);
    MemoryShape shape;
    shape.dtype = case_.options.dtype;
    shape.gemm = case_.options.gemm;
    shape.tokens = pack.token_count();
    shape.loss_rows = pack.rows.size();
    shape.several = case_.micros > 1;
    shape.head_mb = case_.options.head_mb;
    shape.recompute = case_.options.recompute;
    shape.adapter = case_.options.lora;
    shape.train = case_.options.train;
    shape.references = case_.sidecar == ReferenceSidecar::kCold ? 1 : 0;
    return memory_plan(read_model_config(policy_->dir()), shape);
  }

  int64_t held(const std::string& kind) const {
    int64_t bytes = 0;
    if (kind == "weights") {
      for (const Parameter& parameter : policy_->model().parameters())
        bytes += parameter.master.nbytes();
    } else {
      for (const NamedTensor& one : adamw_->tensors()) bytes += one.tensor.nbytes();
    }
    return bytes;
  }

 private:
  const MemoryCase& case_;
  int64_t before_ = 0;
  std::shared_ptr<Policy> policy_;
  std::shared_ptr<Reference> reference_;
  std::unique_ptr<AdamW> adamw_;
};

// Fills the sidecar of a warm case.
inline void run_before(const TinyFolder& folder, const MemoryCase& one) {
  MeasuredSteps earlier(folder, one);
  for (int step = 0; step < 2; ++step) earlier.step();
  EXPECT_TRUE(earlier.has_twin());
}

}  // namespace xrun
