// Three moments of a step may be the fullest. Backward of the head: every activation, the softmax,
// and the gradient of the vocabulary projection. Backward of the last block: the same activations
// and what a block's backward takes. End: every gradient, no activation.

#include "core/model/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "core/base/count_text.h"
#include "core/base/error.h"
#include "core/model/block_memory.h"
#include "core/model/head_chunk.h"
#include "core/model/hf_config.h"
#include "core/model/weight_layout.h"

namespace xrun {

namespace {

constexpr int64_t kScratchPage = 2 << 20;  // scratch.cpp rounds to it

int64_t pages(int64_t bytes) { return (bytes + kScratchPage - 1) / kScratchPage * kScratchPage; }

int64_t elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t base_elements(const ModelConfig& config) {
  int64_t sum = 0;
  for (const WeightSpec& spec : weight_specs(config)) sum += elements(spec.shape);
  return sum;
}

int64_t adapter_elements(const ModelConfig& config, const AdapterOptions& options) {
  int64_t sum = 0;
  for (const LinearModule& module : linear_modules(config)) {
    if (is_adapter_target(options, module)) sum += options.rank * (module.in + module.out);
  }
  return sum;
}

// What comes on top of weights, copies, optimizer and reference.
struct Moment {
  int64_t gradients = 0, activations = 0, head = 0, working = 0;
  int64_t total() const { return gradients + activations + head + working; }
};

class Step {
 public:
  Step(const ModelConfig& config, const MemoryShape& shape)
      : c_(config),
        s_(shape),
        size_(elementSize(shape.dtype)),
        vocab_bytes_(4 * config.vocab * config.hidden),
        trains_base_(!shape.adapter),
        base_(base_elements(config)),
        trained_(shape.adapter ? adapter_elements(config, *shape.adapter) : base_) {
    for (int64_t layer = 0; layer < c_.layers; ++layer) {
      const BlockMemory block = block_memory(c_, s_, layer);
      kept_ += s_.recompute ? s_.tokens * size_ * c_.hidden : block.kept;
      block_.kept = std::max(block_.kept, block.kept);
      block_.backward = std::max(block_.backward, block.backward);
    }
    // input and output of the last norm; cos and sin
    kept_ += s_.tokens * (2 * size_ * c_.hidden + 4);
    if (c_.positions == Positions::kRotary) kept_ += s_.tokens * 4 * c_.head_dim;
  }

  std::vector<MemoryKind> kinds() const {
    const Moment moment = fullest();
    const bool narrow = s_.dtype != c10::ScalarType::Float;
    const int64_t frozen = trains_base_ ? 0 : base_ * size_;
    std::vector<MemoryKind> all{{"weights", frozen + 4 * trained_},
                                {"copies", narrow ? trained_ * size_ : 0},
                                {"gradients", moment.gradients},
                                {"optimizer", 2 * 4 * trained_},
                                {"reference", s_.reference && trains_base_ ? base_ * size_ : 0},
                                {"activations", moment.activations},
                                {"head", moment.head},
                                {"working", moment.working}};
    std::erase_if(all, [](const MemoryKind& kind) { return kind.bytes == 0; });
    return all;
  }

 private:
  int64_t gradients() const { return 4 * trained_; }

  // Softmax rows that stay in scratch memory from step to step.
  int64_t softmax() const {
    const int64_t row = 4 * c_.vocab;
    const int64_t kept = head_rows_within(s_.head_mb, s_.loss_rows, c_.vocab);
    const int64_t spare = std::min(s_.loss_rows - kept, kHeadChunkRows);
    // A twin is asked while the policy's own softmax waits for its backward.
    const int64_t twin = s_.reference ? std::min(s_.loss_rows, kHeadChunkRows) : 0;
    return pages(kept * row) + pages(std::max(spare, twin) * row);
  }

  Moment head_backward() const {
    const int64_t rows = 4 * s_.loss_rows * c_.hidden;
    Moment m{.activations = kept_, .head = softmax() + rows, .working = 2 * rows};
    m.gradients = s_.several ? gradients() : 0;
    m.working += 4 * s_.tokens * c_.hidden;
    if (trains_base_) m.working += vocab_bytes_;
    if (size_ != 4) m.working += vocab_bytes_;  // the projection in fp32
    m.working += widened();
    return m;
  }

  Moment block_backward() const {
    Moment m{.activations = kept_, .head = softmax()};
    if (s_.recompute) m.activations += block_.kept;
    m.gradients = s_.several ? gradients() : 0;
    m.working = block_.backward + widened();
    if (trains_base_ && !s_.several) m.gradients += vocab_bytes_ + block_gradient();
    if (trains_base_ && s_.several) m.working += (c_.tied ? vocab_bytes_ : 0) + block_gradient();
    return m;
  }

  Moment end() const {
    Moment m{.gradients = gradients(), .head = softmax()};
    m.activations = 2 * s_.tokens * size_ * c_.hidden;
    m.working = widened();
    if (trains_base_) {
      const int64_t lying = (c_.tied ? 1 : 0) + (s_.several ? 1 : 0);
      m.working += lying * vocab_bytes_;
      if (size_ != 4) m.working += c_.vocab * c_.hidden * size_;
    }
    return m;
  }

  Moment fullest() const {
    Moment most = head_backward();
    for (const Moment& other : {block_backward(), end()}) {
      if (other.total() > most.total()) most = other;
    }
    return most;
  }

  // Gradients of the largest part of a block that are made at one time.
  int64_t block_gradient() const {
    if (c_.moe.experts > 0) return 4 * 3 * c_.moe.experts * c_.moe.ffn * c_.hidden;
    return 4 * c_.ffn * c_.hidden;
  }

  // Operands and results in fp32, which stay in scratch memory.
  int64_t widened() const {
    if (s_.gemm != GemmType::kFloat || size_ == 4) return 0;
    const int64_t inner = c_.moe.experts > 0 ? c_.moe.ffn : c_.ffn;
    const int64_t wide = 4 * s_.tokens * std::max(inner, c_.hidden);
    return 2 * pages(wide) + pages(4 * inner * c_.hidden);
  }

  const ModelConfig& c_;
  const MemoryShape& s_;
  int64_t size_, vocab_bytes_;
  bool trains_base_;
  int64_t base_, trained_;  // elements
  int64_t kept_ = 0;        // activations
  BlockMemory block_;       // the largest of each
};

}  // namespace

std::vector<MemoryKind> memory_plan(const ModelConfig& config, const MemoryShape& shape) {
  return Step(config, shape).kinds();
}

int64_t total_bytes(const std::vector<MemoryKind>& plan) {
  int64_t sum = 0;
  for (const MemoryKind& kind : plan) sum += kind.bytes;
  return sum;
}

int64_t weight_bytes(const ModelConfig& config, c10::ScalarType dtype) {
  return base_elements(config) * static_cast<int64_t>(elementSize(dtype));
}

std::string describe_kinds(const std::vector<MemoryKind>& plan) {
  std::vector<MemoryKind> sorted = plan;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const MemoryKind& a, const MemoryKind& b) { return a.bytes > b.bytes; });
  std::string text;
  for (const MemoryKind& kind : sorted) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind.name,
                        format_bytes(static_cast<double>(kind.bytes)));
  }
  return text;
}

std::string describe_plan(const std::vector<MemoryKind>& plan) {
  return fmt::format("{}: {}", format_bytes(static_cast<double>(total_bytes(plan))),
                     describe_kinds(plan));
}

}  // namespace xrun
