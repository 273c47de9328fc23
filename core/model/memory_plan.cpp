// A step peaks at one of three points. Backward of the head: all activations, the softmax, and the
// gradient of the vocabulary projection. Backward of the last block: the same activations and the
// temporaries of a block's backward. End: all gradients, no activation.

#include "core/model/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/block.h"
#include "core/model/ops/head_chunk.h"
#include "core/model/ops/scratch.h"
#include "core/model/weights/weight_layout.h"

namespace xrun {

namespace {

constexpr double kMaxBytes = double(int64_t{1} << 56);  // of a kind, so that a sum fits 64 bits

int64_t whole(double bytes) { return static_cast<int64_t>(std::clamp(bytes, 0.0, kMaxBytes)); }

double pages(double bytes) { return std::ceil(bytes / kScratchPage) * kScratchPage; }

// The model with one layer of a kind, or none: layers of a kind are alike and may be many.
ModelConfig with_layer(const ModelConfig& config, int64_t layers, bool is_moe) {
  ModelConfig one = config;
  one.layers = layers;
  one.moe_layers.assign(static_cast<size_t>(layers), is_moe ? 1 : 0);
  return one;
}

double base_elements_of(const ModelConfig& config) {
  double sum = 0;
  for (const WeightSpec& spec : weight_specs(config)) {
    double elements = 1;
    for (const int64_t size : spec.shape) elements *= static_cast<double>(size);
    sum += elements;
  }
  return sum;
}

double adapter_elements_of(const ModelConfig& config, const AdapterOptions& options) {
  double sum = 0;
  for (const LinearModule& module : linear_modules(config)) {
    if (!is_adapter_target(options, module)) continue;
    sum += static_cast<double>(options.rank) *
           (static_cast<double>(module.in) + static_cast<double>(module.out));
  }
  return sum;
}

// A kind of layer, and how many a model has.
struct LayerKind {
  ModelConfig model;  // with one of them
  double count;
};

// The kinds of layers that a model has.
class LayerKinds {
 public:
  explicit LayerKinds(const ModelConfig& config) {
    ModelConfig bare = config;
    bare.source = Json();
    bare.windows.clear();
    none_ = with_layer(bare, 0, false);
    const auto mixtures =
        static_cast<double>(std::count_if(config.moe_layers.begin(), config.moe_layers.end(),
                                          [](uint8_t is_moe) { return is_moe != 0; }));
    const double dense = static_cast<double>(config.layers) - mixtures;
    if (dense > 0) kinds_.push_back({with_layer(bare, 1, false), dense});
    if (mixtures > 0) kinds_.push_back({with_layer(bare, 1, true), mixtures});
  }
  const std::vector<LayerKind>& all() const { return kinds_; }

  template <typename Elements>
  double sum(const Elements& elements) const {
    const double outside = elements(none_);
    double sum = outside;
    for (const LayerKind& kind : kinds_) sum += kind.count * (elements(kind.model) - outside);
    return sum;
  }

 private:
  ModelConfig none_;
  std::vector<LayerKind> kinds_;
};

double base_elements(const LayerKinds& layers) { return layers.sum(base_elements_of); }

// Bytes on top of weights, copies, optimizer and reference.
struct PeakBytes {
  double gradients = 0, activations = 0, head = 0, working = 0;
  double total() const { return gradients + activations + head + working; }
};

// Bytes that stay from step to step.
struct ResidentBytes {
  double weights = 0, copies = 0, optimizer = 0, reference = 0;
};

// A model's sizes as doubles, so that products of a hostile file's sizes do not wrap.
struct WideSizes {
  explicit WideSizes(const ModelConfig& config)
      : hidden(static_cast<double>(config.hidden)),
        heads(static_cast<double>(config.heads)),
        kv_heads(static_cast<double>(config.kv_heads)),
        head_dim(static_cast<double>(config.head_dim)),
        ffn(static_cast<double>(config.ffn)),
        vocab(static_cast<double>(config.vocab)),
        experts(static_cast<double>(config.moe.experts)),
        top_k(static_cast<double>(config.moe.top_k)),
        expert_ffn(static_cast<double>(config.moe.ffn)) {}
  double hidden, heads, kv_heads, head_dim, ffn, vocab, experts, top_k, expert_ffn;
};

class StepMemory {
 public:
  StepMemory(const ModelConfig& config, const MemoryShape& shape)
      : c_(config),
        w_(config),
        s_(shape),
        size_(static_cast<double>(elementSize(shape.dtype))),
        tokens_(static_cast<double>(shape.tokens)),
        loss_rows_(shape.scores ? 0 : shape.loss_rows),
        vocab_bytes_(4 * w_.vocab * w_.hidden),
        head_bytes_(shape.scores ? 0 : vocab_bytes_),
        trains_base_(!shape.adapter) {
    const LayerKinds layers(config);
    base_ = base_elements(layers);
    trained_ = trains_base_ ? base_ : layers.sum([&](const ModelConfig& model) {
      return adapter_elements_of(model, *shape.adapter);
    });
    // Scores do not use an untied vocabulary projection.
    moved_ = trained_ - (trains_base_ && s_.scores && !c_.tied ? w_.vocab * w_.hidden : 0);
    for (const LayerKind& kind : layers.all()) {
      const double saved = tokens_ * block_saves(kind.model, s_);
      saved_ += kind.count * (s_.recompute ? tokens_ * size_ * w_.hidden : saved);
      block_saved_ = std::max(block_saved_, saved);
      block_temporaries_ = std::max(block_temporaries_, temporaries(kind.model.is_moe(0)));
    }
    // input and output of the last norm; cos and sin
    saved_ += tokens_ * (2 * size_ * w_.hidden + 4);
    if (c_.positions == Positions::kRotary) saved_ += tokens_ * 4 * w_.head_dim;
  }

  ResidentBytes held() const {
    ResidentBytes held;
    held.weights = (trains_base_ ? 0 : base_ * size_) + 4 * trained_;
    if (s_.dtype != c10::ScalarType::Float) held.copies = trained_ * size_;
    if (s_.trains) held.optimizer = 2 * 4 * moved_ * static_cast<double>(s_.optimizers);
    if (trains_base_) held.reference = base_ * size_ * static_cast<double>(s_.references);
    return held;
  }

  PeakBytes fullest() const {
    if (!s_.trains) return {};
    PeakBytes most = head_backward();
    for (const PeakBytes& other : {reference_forward(), block_backward(), end()}) {
      if (other.total() > most.total()) most = other;
    }
    return most;
  }

 private:
  double gradients() const { return 4 * moved_; }

  // The peak of a block's backward, without gradients of weights.
  double temporaries(bool is_moe) const {
    const double heads = (4 * w_.heads + 4 * w_.kv_heads) * w_.head_dim;
    // The gradient of the last map's input takes the memory of the input itself.
    double inner = c_.gated ? 2 * w_.ffn : w_.ffn;
    if (is_moe) inner = w_.top_k * (2 * w_.hidden + 6 * w_.expert_ffn);
    return tokens_ * size_ * (2 * w_.hidden + std::max(heads, inner));
  }

  // Softmax rows that stay in scratch memory from step to step.
  double softmax() const {
    const double row = 4 * w_.vocab;
    const int64_t kept = head_rows_within(s_.head_mb, loss_rows_, c_.vocab);
    const int64_t spare = std::min(loss_rows_ - kept, kHeadChunkRows);
    // A reference is evaluated while the policy's own softmax waits for its backward.
    const int64_t rows = std::max(loss_rows_, s_.reference_rows);
    const int64_t reference = s_.references > 0 ? std::min(rows, kHeadChunkRows) : 0;
    return pages(static_cast<double>(kept) * row) +
           pages(static_cast<double>(std::max(spare, reference)) * row);
  }

  // A block of the reference, whose forward keeps nothing, while the policy's activations wait.
  PeakBytes reference_forward() const {
    PeakBytes m{.activations = saved_, .head = softmax()};
    if (s_.references == 0) return m;
    const double heads = (2 * w_.heads + 2 * w_.kv_heads) * w_.head_dim;
    double inner = (c_.gated ? 2 : 1) * w_.ffn;
    if (c_.moe.experts > 0) inner = w_.top_k * (2 * w_.hidden + 3 * w_.expert_ffn);
    m.gradients = s_.several ? gradients() : 0;
    m.working = static_cast<double>(s_.reference_tokens) * size_ *
                (2 * w_.hidden + std::max(heads, inner));
    return m;
  }

  PeakBytes head_backward() const {
    const double rows = 4 * static_cast<double>(loss_rows_) * w_.hidden;
    PeakBytes m{.activations = saved_, .head = softmax() + rows, .working = 2 * rows};
    m.gradients = s_.several ? gradients() : 0;
    m.working += 4 * tokens_ * w_.hidden;
    if (trains_base_) m.working += head_bytes_;
    if (size_ != 4) m.working += head_bytes_;  // the projection in fp32
    m.working += upcasts();
    return m;
  }

  PeakBytes block_backward() const {
    PeakBytes m{.activations = saved_, .head = softmax()};
    // One block is recomputed, with its output and the gradient of that.
    if (s_.recompute) m.activations += block_saved_ + 2 * tokens_ * size_ * w_.hidden;
    m.gradients = s_.several ? gradients() : 0;
    m.working = block_temporaries_ + upcasts();
    if (trains_base_ && !s_.several) m.gradients += head_bytes_ + block_gradient();
    if (trains_base_ && s_.several) m.working += (c_.tied ? head_bytes_ : 0) + block_gradient();
    return m;
  }

  PeakBytes end() const {
    PeakBytes m{.gradients = gradients(), .head = softmax()};
    m.activations = 2 * tokens_ * size_ * w_.hidden;
    m.working = upcasts();
    if (trains_base_) {
      m.working += (c_.tied ? head_bytes_ : 0) + (s_.several ? vocab_bytes_ : 0);
      if (size_ != 4) m.working += w_.vocab * w_.hidden * size_;
    }
    return m;
  }

  // The largest gradients of a block that exist at one time.
  double block_gradient() const {
    if (c_.moe.experts > 0) return 4 * 3 * w_.experts * w_.expert_ffn * w_.hidden;
    return 4 * w_.ffn * w_.hidden;
  }

  // Operands and results in fp32, which stay in scratch memory.
  double upcasts() const {
    if (s_.gemm != GemmType::kFloat || size_ == 4) return 0;
    const double inner = c_.moe.experts > 0 ? w_.expert_ffn : w_.ffn;
    const double wide = 4 * tokens_ * std::max(inner, w_.hidden);
    return 2 * pages(wide) + pages(4 * inner * w_.hidden);
  }

  const ModelConfig& c_;
  const WideSizes w_;
  const MemoryShape& s_;
  double size_, tokens_;
  int64_t loss_rows_;  // of the vocabulary
  double vocab_bytes_, head_bytes_;
  bool trains_base_;
  double base_ = 0, trained_ = 0, moved_ = 0;       // elements; moved: those that get gradients
  double saved_ = 0;                                // activations
  double block_saved_ = 0, block_temporaries_ = 0;  // of the largest block
};

// Models of one loss: saved memory adds up, working memory is freed between them.
void join(PeakBytes& all, const PeakBytes& more) {
  all.gradients += more.gradients;
  all.activations += more.activations;
  all.head += more.head;
  all.working = std::max(all.working, more.working);
}

}  // namespace

std::vector<MemoryKind> memory_plan(const std::vector<PlannedModel>& models) {
  ResidentBytes held;
  std::map<int64_t, PeakBytes> turns;
  for (const PlannedModel& model : models) {
    const StepMemory step(model.config, model.shape);
    const ResidentBytes own = step.held();
    held.weights += own.weights;
    held.copies += own.copies;
    held.optimizer += own.optimizer;
    held.reference += own.reference;
    join(turns[model.turn], step.fullest());
  }
  PeakBytes most;
  for (const auto& [turn, peak] : turns) {
    if (peak.total() > most.total()) most = peak;
  }
  std::vector<MemoryKind> all{
      {"weights", whole(held.weights)},     {"copies", whole(held.copies)},
      {"gradients", whole(most.gradients)}, {"optimizer", whole(held.optimizer)},
      {"reference", whole(held.reference)}, {"activations", whole(most.activations)},
      {"head", whole(most.head)},           {"working", whole(most.working)}};
  std::erase_if(all, [](const MemoryKind& kind) { return kind.bytes == 0; });
  return all;
}

std::vector<MemoryKind> memory_plan(const ModelConfig& config, const MemoryShape& shape) {
  return memory_plan({PlannedModel{config, shape}});
}

int64_t total_bytes(const std::vector<MemoryKind>& plan) {
  int64_t sum = 0;
  for (const MemoryKind& kind : plan) sum += kind.bytes;
  return sum;
}

int64_t weight_bytes(const ModelConfig& config, c10::ScalarType dtype) {
  return whole(base_elements(LayerKinds(config)) * static_cast<double>(elementSize(dtype)));
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
