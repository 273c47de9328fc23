// A step peaks at one of seven points, where memory holds:
//   sampling             keys, values and packed weights, before the step's own memory exists; the
//                        first training forward releases them (Model::pack)
//   reference's forward  all activations of the policy, and a block's temporaries
//   head's backward      all activations, the softmax, the gradient of the vocabulary projection
//   block's backward     the last block's: the same activations, and a block's temporaries
//   prefix's backward    of a prefix that several micro-batches share: its keys, values, their
//                        gradients and the inputs of its blocks, which the other points hold as
//                        well, and one of its blocks
//   prefix reader's end  of a micro-batch that reads such a prefix: beside the sums, its own
//                        gradients of all keys and values
//   end                  all gradients, no activations
// Sizes come from the operators that allocate them (block_memory, head_memory, linear_scratch).

#include "core/model/cost/step_memory.h"

#include <algorithm>
#include <cmath>

#include "core/model/block.h"
#include "core/model/ops/head_block.h"
#include "core/model/ops/linear_head.h"
#include "core/model/ops/scratch.h"
#include "core/model/weights/layer_kinds.h"
#include "core/model/weights/trained_weights.h"
#include "core/model/weights/weight_layout.h"

namespace xrun {

namespace {

// The numbers of core/dist/flat_index.h, core/train/models/gradient_exchange.cpp (gradients) and
// core/train/weight_gather.cpp (weights).
constexpr double kBucketElements = 4 << 20;
constexpr int kBucketsInFlight = 4;

// One model's kinds of memory at each point at which a step may peak.
class StepPoints {
 public:
  StepPoints(const ModelConfig& config, const MemoryShape& shape)
      : s_(shape),
        element_(static_cast<double>(elementSize(shape.dtype))),
        tokens_(static_cast<double>(shape.tokens)),
        hidden_(static_cast<double>(config.hidden)),
        layers_(static_cast<double>(config.layers)),
        trains_base_(!shape.adapter),
        tied_(config.tied),
        share_(1 / static_cast<double>(shape.level > 0 ? shape.ranks : 1)),
        ranges_weights_(shape.ranks > 1 && shape.level >= 3) {
    // The sums of other ranks' micro-batches exist beside the gradients of one.
    s_.several = s_.several || shape.ranks > 1;
    // A graph would hold every block's fetched weights.
    s_.recompute = s_.recompute || ranges_weights_;
    const LayerKinds layers(config);
    base_ = layers.sum(weight_elements);
    trained_ = trains_base_ ? base_ : layers.sum([&](const ModelConfig& model) {
      return adapter_elements(*shape.adapter, model);
    });
    if (trains_base_ && !s_.train.empty()) trained_ = trained_elements(config, s_.train);
    trains_head_ = trains_base_ && trains(tied_ ? config.names.embedding : config.names.head);
    trains_embedding_ = trains_base_ && trains(config.names.embedding);
    add_head(config);
    // Scores do not use an untied vocabulary projection.
    moved_ = trained_ - (trains_head_ && s_.scores && !tied_ ? vocab_elements_ : 0);
    // Elements of all weights except an untied embedding. Norms, which are small, are included.
    const bool packs_blocks = s_.dtype == c10::ScalarType::Float || s_.gemm == GemmType::kFloat;
    packed_ = packs_blocks ? base_ - (tied_ ? 0 : vocab_elements_) : vocab_elements_;
    for (const LayerKind& kind : layers.all()) add_blocks(kind);
    // input and output of the last norm; cos and sin
    saved_ += tokens_ * (2 * element_ * hidden_ + 4);
    if (config.positions == Positions::kRotary) {
      saved_ += tokens_ * 4 * static_cast<double>(config.head_dim);
    }
    const bool has_experts = config.moe.experts > 0;
    const auto inner = static_cast<double>(has_experts ? config.moe.ffn : config.ffn);
    upcasts_ = linear_scratch(tokens_, hidden_, inner, shape.dtype, shape.gemm);
    // The block being computed and the next one.
    const double outside = vocab_elements_ * (tied_ ? 1 : 2);
    fetched_ = 2 * element_ * std::max(0.0, base_ - outside) / layers_;
    add_buckets();
    largest_.gradient = std::min(largest_.gradient, 4 * trained_);
  }

  ResidentBytes held() const {
    ResidentBytes held;
    if (s_.frozen) {
      held.frozen = base_ * element_ * share_;
      return held;
    }
    const double weights = ranges_weights_ ? share_ : 1;
    // Frozen weights in the storage type; masters, and an adapter's factors, in fp32.
    const double frozen = trains_base_ ? base_ - trained_ : base_;
    held.weights = frozen * element_ * weights + 4 * trained_ * (trains_base_ ? weights : 1);
    const bool copies = s_.dtype != c10::ScalarType::Float;
    if (copies && !(ranges_weights_ && trains_base_)) held.copies = trained_ * element_;
    // Two moments in fp32.
    if (s_.trains) held.optimizer = 2 * 4 * moved_ * share_ * static_cast<double>(s_.optimizers);
    held.average = 4 * trained_ * share_ * static_cast<double>(s_.averages);
    if (trains_base_) {
      held.reference = base_ * element_ * share_ * static_cast<double>(s_.references);
    }
    return held;
  }

  PeakBytes fullest() const {
    // The forward of a frozen model keeps only hidden states.
    if (s_.frozen) {
      return {.working = tokens_ * (largest_.forward + 2 * element_ * hidden_) + upcasts_ +
                         fetched_frozen()};
    }
    if (!s_.trains) return {};
    PeakBytes most = head_backward();
    for (const PeakBytes& other : {reference_forward(), block_backward(), prefix_backward(),
                                   prefix_reader_end(), end(), sampling()}) {
      if (other.total() > most.total()) most = other;
    }
    return most;
  }

 private:
  bool trains(const std::string& role) const { return is_trained(s_.train, role + ".weight"); }

  void add_head(const ModelConfig& config) {
    vocab_elements_ = static_cast<double>(config.vocab) * hidden_;
    const int64_t rows = s_.scores ? 0 : s_.loss_rows;
    // A reference is evaluated while the policy's own softmax waits for its backward.
    const int64_t reference_rows = s_.references > 0 ? std::max(rows, s_.reference_rows) : 0;
    const bool distills = s_.teacher_vocab > 0 && rows > 0;
    // The gradients of a loss of distillation come first (core/distill/labelled_blocks.cpp).
    const bool matrix = distills && !s_.teacher_support;
    const int64_t kept = matrix ? head_rows_within(s_.head_mb, rows, config.vocab) : 0;
    const int64_t kept_mb = (4 * kept * config.vocab + (int64_t{1} << 20) - 1) >> 20;
    head_ = head_memory({.tokens = s_.tokens,
                         .rows = rows,
                         .other_rows = reference_rows,
                         .vocab = config.vocab,
                         .width = config.hidden,
                         .head_mb = std::max<int64_t>(s_.head_mb - kept_mb, 0),
                         .dtype = s_.dtype});
    if (distills) add_distillation(rows, kept, config.vocab);
    // Ids in int64 and log-probs wait for the backward; the sums take two copies in fp64.
    head_.scratch += (8 + 4 + 2 * 8) * static_cast<double>(rows * s_.teacher_top);
    if (!s_.scores) return;
    // A value head reads only hidden states.
    head_.weight = 0;
    head_.backward = 4 * tokens_ * hidden_;
  }

  // Adds to the matrix of log-probs a block of the teacher's logits and, unless the loss reads only
  // a support set, a matrix of gradients, whose first `kept` rows wait for the backward.
  void add_distillation(int64_t rows, int64_t kept, int64_t vocab) {
    const auto bytes = [](int64_t n, int64_t columns) {
      return scratch_bytes(static_cast<double>(n) * static_cast<double>(columns));
    };
    head_.scratch += bytes(std::min(rows, kHeadBlockRows), std::max(s_.teacher_vocab, vocab));
    if (!s_.teacher_support) {
      head_.scratch += bytes(kept, vocab) + bytes(std::min(rows - kept, kHeadBlockRows), vocab);
    }
    // The teacher's hidden states wait too; a copy of them is made for each product.
    const double hidden = 4 * static_cast<double>(rows) * static_cast<double>(s_.teacher_width);
    head_.saved += hidden;
    head_.backward += hidden + static_cast<double>(s_.teacher_copies);
  }

  void add_blocks(const LayerKind& kind) {
    const BlockMemory block = block_memory(kind.model, s_.dtype, s_.adapter);
    const double saved = tokens_ * block.saved;
    saved_ += kind.count * (s_.recompute ? tokens_ * element_ * hidden_ : saved);
    const auto keys = 2 * static_cast<double>(kind.model.kv_heads * kind.model.head_dim);
    // Keys and values with their gradients' fp32 sums, and the block's input.
    prefix_ += kind.count * prefix_tokens() * (element_ * (keys + hidden_) + 4 * keys);
    prefix_gradients_ += kind.count * prefix_tokens() * element_ * keys;
    prefix_block_.saved = std::max(prefix_block_.saved, prefix_tokens() * block.saved);
    prefix_block_.backward = std::max(prefix_block_.backward, prefix_tokens() * block.backward);
    // The head is always packed, other maps if products are fp32, experts never.
    if (s_.dtype == c10::ScalarType::Float || s_.gemm == GemmType::kFloat) {
      const auto experts = static_cast<double>(kind.model.moe.experts * kind.model.moe.ffn);
      packed_ -= kind.count * 3 * experts * hidden_;
    }
    largest_.saved = std::max(largest_.saved, saved);
    largest_.forward = std::max(largest_.forward, block.forward);
    largest_.backward = std::max(largest_.backward, tokens_ * block.backward);
    largest_.gradient = std::max(largest_.gradient, block.gradient);
  }

  // Sets the sizes of the buckets in which ranks exchange gradients, and their number.
  void add_buckets() {
    if (s_.ranks == 1) return;
    first_bucket_ = trains_embedding_ ? 4 * vocab_elements_ : 0;
    last_bucket_ = trains_head_ && !tied_ && !s_.scores ? 4 * vocab_elements_ : 0;
    const double block = std::max(0.0, 4 * moved_ - first_bucket_ - last_bucket_) / layers_;
    // A block fills whole buckets; each exceeds the least size by at most one weight.
    block_bucket_ = std::min(block, std::max(4 * kBucketElements, largest_.gradient));
    block_buckets_ =
        block_bucket_ > 0 ? layers_ * std::max(1.0, std::round(block / block_bucket_)) : 0;
    const auto ranks = static_cast<double>(s_.ranks), items = static_cast<double>(s_.items);
    rounds_ = std::ceil(items / ranks);
    senders_ = std::min(items, ranks) / ranks;
  }
  // Returns the bytes of the i-th bucket that a backward launches. The order is an untied head,
  // blocks, the embedding.
  double bucket(double i) const {
    if (i < 1) return last_bucket_;
    return i < 1 + block_buckets_ ? block_bucket_ : first_bucket_;
  }

  // Returns the bytes of a rank's gradients (gradient_exchange.h) when its last item has launched
  // this many buckets: the sums of its ranges, what it sends, and what it receives. The last
  // buckets of an earlier item are under way until the next item launches its own.
  double exchanged(double launched) const {
    const double buckets = 2 + block_buckets_, whole = 4 * moved_;
    double under_way = 0, begun = rounds_ > 1 ? whole : 0;
    // A hostile config's count of buckets may be too large for ++.
    for (int before = 1; before <= kBucketsInFlight; ++before) {
      const double i = launched - before;
      if (i >= 0) under_way += bucket(i);
      if (i < 0 && rounds_ > 1) under_way += bucket(buckets + i);
    }
    if (rounds_ <= 1) {
      begun =
          launched < 1 ? 0 : last_bucket_ + std::min(launched - 1, block_buckets_) * block_bucket_;
      if (launched >= buckets) begun = whole;
    }
    under_way = std::min(under_way, whole);
    // A bucket is added to the sums when it has arrived.
    const double sums = rounds_ > 2 ? whole : std::max(0.0, begun - under_way);
    // Below level 2 every bucket keeps its send buffer, which later receives the updated weights;
    // from level 2 on only buckets under way and the next one have buffers.
    const double next = launched < buckets ? bucket(launched) : 0;
    const double sent = s_.level < 2 ? whole : std::min(under_way + next, whole);
    return sums / static_cast<double>(s_.ranks) + sent + senders_ * under_way;
  }

  // Bytes of gradients at the end of a micro-batch.
  double gradients() const {
    // A group of micro-batches is summed by itself before it is added to earlier ones
    // (AdamW::begin_exchange).
    if (s_.ranks == 1) return 4 * moved_ * (s_.prefix_tokens > 0 && s_.items > 1 ? 2 : 1);
    double most = exchanged(2 + block_buckets_);
    // All sums are gathered when no bucket is under way.
    if (s_.level == 0) most = std::max(most, 4 * moved_ * (2 + 1 / static_cast<double>(s_.ranks)));
    return most + item_gradients();
  }
  // Gradients of an item with several backwards, which are exchanged when it ends.
  double item_gradients() const { return s_.ranks > 1 && s_.prefix_tokens > 0 ? 4 * moved_ : 0; }
  // Gradients of earlier micro-batches, held while one computes.
  double earlier_gradients() const {
    return s_.ranks == 1 ? gradients() : exchanged(0) + item_gradients();
  }
  // Adds the buckets that ranks launch while blocks wait for their backward. The first forward
  // after an update needs less: at level 2 at most as many buckets of weights are still under way
  // (weight_gather.h), with the same activations and without the pieces of other ranks.
  void add_exchange(PeakBytes& m) const {
    if (s_.ranks == 1 || s_.prefix_tokens > 0) return;
    const double before = exchanged(0);
    double most = 0, freed = 0;
    // While the next bucket is being filled.
    for (double launched = 1; launched <= std::min(block_buckets_, kBucketsInFlight + 1.0);
         ++launched) {
      const double held = exchanged(launched) - before;
      // The first gradients arrive when a block's backward is done.
      const double gone =
          launched > 1 ? saved_ * std::max((launched - 1) / block_buckets_, 1 / layers_) : 0;
      if (launched > 1 && held - gone <= most - freed) continue;
      most = held;
      freed = gone;
    }
    m.gradients += most;
    m.activations -= freed;
  }
  double fetched_frozen() const { return share_ < 1 ? fetched_ + element_ * vocab_elements_ : 0; }
  double fetched() const { return ranges_weights_ ? fetched_ : 0; }
  double prefix_tokens() const { return static_cast<double>(s_.prefix_tokens); }

  // The memory at any point between a micro-batch's forward and the end of its backward.
  PeakBytes with_activations() const {
    PeakBytes m{.activations = saved_ + prefix_, .head = head_.scratch};
    if (s_.several) m.gradients = earlier_gradients();
    return m;
  }

  // One block of the reference, whose forward keeps nothing, beside the policy's activations.
  PeakBytes reference_forward() const {
    PeakBytes m = with_activations();
    if (s_.references > 0) {
      m.working = static_cast<double>(s_.reference_tokens) * largest_.forward + fetched_frozen();
    }
    return m;
  }

  PeakBytes head_backward() const {
    PeakBytes m = with_activations();
    m.head += head_.saved;
    m.working = head_.backward + upcasts_ + fetched();
    if (ranges_weights_) m.working += element_ * vocab_elements_;
    if (trains_head_) m.working += head_.weight;
    return m;
  }

  PeakBytes block_backward() const {
    PeakBytes m = with_activations();
    // One block is recomputed, with its output and the output's gradient.
    if (s_.recompute) m.activations += largest_.saved + 2 * tokens_ * element_ * hidden_;
    m.working = largest_.backward + upcasts_ + fetched();
    add_exchange(m);
    if (!trains_base_) return m;
    // The first gradient becomes the parameter's; later ones are added to it and freed.
    const double head = trains_head_ ? head_.weight : 0;
    if (!s_.several) m.gradients += head + largest_.gradient;
    if (s_.several) m.working += (tied_ ? head : 0) + largest_.gradient;
    return m;
  }

  PeakBytes prefix_backward() const {
    if (s_.prefix_tokens == 0) return {};
    PeakBytes m{.gradients = gradients(), .head = head_.scratch};
    m.activations = prefix_ + prefix_block_.saved + 2 * prefix_tokens() * element_ * hidden_;
    m.working = prefix_block_.backward + upcasts_ + fetched();
    if (trains_base_) m.working += largest_.gradient;
    return m;
  }

  // The gradients of one micro-batch, before they are added to the sums.
  PeakBytes prefix_reader_end() const {
    if (s_.prefix_tokens == 0) return {};
    PeakBytes m = end();
    m.activations += prefix_ + prefix_gradients_;
    return m;
  }

  PeakBytes end() const {
    PeakBytes m{.gradients = gradients(), .head = head_.scratch};
    m.activations = 2 * tokens_ * element_ * hidden_;
    m.working = upcasts_;
    if (!trains_embedding_) return m;
    // The embedding's gradient exists beside the head's if they are tied, and beside the sum of
    // earlier micro-batches; it is in the storage type before it becomes fp32.
    m.working += (tied_ ? head_.weight : 0) + (s_.several ? 4 * vocab_elements_ : 0);
    if (s_.dtype != c10::ScalarType::Float) m.working += vocab_elements_ * element_;
    return m;
  }

  // The forward over prompts or the logits of a decoding step, whichever is larger.
  PeakBytes sampling() const {
    if (s_.sampling_cache == 0) return {};
    const auto prompts = static_cast<double>(s_.sampling_prompts);
    const double logits = 4 * static_cast<double>(s_.sampling_rows) * vocab_elements_ / hidden_;
    PeakBytes m{.head = std::max(head_.scratch, logits)};
    m.sampling = static_cast<double>(s_.sampling_cache);
    if (s_.sampling_packs) m.sampling += 4 * packed_;
    m.working = prompts * (largest_.forward + 2 * element_ * hidden_) + upcasts_;
    return m;
  }

  MemoryShape s_;
  double element_, tokens_, hidden_, layers_;  // element: bytes of an activation
  bool trains_base_, tied_;
  bool trains_head_ = false, trains_embedding_ = false;
  double share_;         // the part of state in ranges that one rank holds
  bool ranges_weights_;  // the policy's weights are in ranges (level 3)
  double fetched_ = 0;   // bytes of fetched blocks of a model in ranges
  // Bytes of buckets of gradients: the embedding's, a block's largest, an untied head's.
  double first_bucket_ = 0, block_bucket_ = 0, last_bucket_ = 0;
  double block_buckets_ = 0;  // of all blocks
  double rounds_ = 1;         // items of the rank with the most
  double senders_ = 1;        // the part of the ranks that has an item
  double vocab_elements_ = 0;
  double base_ = 0, trained_ = 0, moved_ = 0;  // elements; moved: those that get gradients
  double packed_ = 0;                          // elements of a sampler's packed weights
  double saved_ = 0;                           // activations
  HeadMemory head_;
  BlockMemory largest_;          // over the kinds of blocks; saved and backward for all tokens
  double prefix_ = 0;            // bytes of a prefix that stay during its micro-batches
  double prefix_gradients_ = 0;  // of the prefix's keys and values, in one micro-batch
  BlockMemory prefix_block_;     // saved and backward, for the tokens of the prefix
  double upcasts_ = 0;           // operands and results of products in fp32
};

}  // namespace

StepMemory step_memory(const ModelConfig& config, const MemoryShape& shape) {
  const StepPoints points(config, shape);
  return {points.held(), points.fullest()};
}

}  // namespace xrun
