#pragma once
// A decoder-only language model: named fp32 master weights and a forward over packed segments.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/ops/dropout.h"
#include "core/model/ops/linear.h"
#include "core/model/ranged_weights.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

class Decoder;
class IncomingWeights;
class KvCache;
class PackedWeights;
struct Adapter;
struct ExportedModel;
struct HeadOptions;
struct HeadResult;
struct HeldKeys;
struct NamedTensor;
struct RouterRecord;
struct WeightSpec;

// A pack without padding: N segments, or the nodes of trees whose branches share their prefixes
// (ops/attention_layout.h). Node n is tokens [cu_seqlens[n], cu_seqlens[n+1]). The tensors are on
// the host, whatever the model's device, since they are checked there.
struct PackInput {
  at::Tensor tokens;                 // [T] int64
  at::Tensor position_ids;           // [T] int64, usually from 0 in each segment
  std::vector<int32_t> cu_seqlens;   // [N+1], from 0 to T
  std::vector<int32_t> parent = {};  // [N] the node above, -1 for a root; empty: all are roots
  // [N] length of the sequences through a node, by which dynamic and longrope RoPE choose its
  // frequencies; empty: the last position of the node plus 1
  std::vector<int32_t> rope_length = {};
};

// Returns a tensor with a copy of the values, [n] int64.
at::Tensor int64_tensor(const std::vector<int64_t>& values);

// Returns the pack of sequences laid end to end; the positions of each start at 0.
PackInput pack_sequences(const std::vector<std::vector<int32_t>>& sequences);

struct Parameter {
  std::string name;   // as in the checkpoint: "model.layers.0.mlp.up_proj.weight"
  at::Tensor master;  // trained: an fp32 leaf that requires grad; frozen: the only copy, in the
                      // storage type (an adapter's factors in fp32). For a weight in ranges it has
                      // the type, shape and gradient, but its values are 0 (ranged_weights.h)
};

// Digests of a weight (weight_digest() in model_load.h): of its master, and of the master rounded
// to the type that the model computes in.
struct WeightDigest {
  std::string master, rounded;
};

// The digests of a folder's base weights, in the order of weight_specs(), and the state of its
// files when they were read (weight_files_state()).
struct FolderDigests {
  std::vector<WeightDigest> weights;
  std::string state;
};

struct LoadOptions {
  // Type of activations, copies and frozen weights: kFloat, kBFloat16, or kHalf if not trained.
  // kDouble serves tests as an oracle on the CPU: its ops are composed and its masters are fp64. No
  // setting selects it.
  at::ScalarType dtype = at::kFloat;
  GemmType gemm = GemmType::kStorage;  // compute type of products (linear.h)
  bool trainable = false;  // all weights, or the adapter's factors alone if there is one
  // Patterns of the base weights that are trained (weights/trained_weights.h); the others are
  // frozen, in the storage type. Empty: all.
  std::vector<std::string> train = {};
  bool recompute = false;  // blocks keep only their input for the backward (recompute.h)
  std::shared_ptr<const Adapter> adapter = nullptr;  // null: none
  bool classifiers = false;  // also load a sequence classifier, whose head_weight() is [labels, D]
  c10::Device device = c10::kCPU;  // of weights, activations, gradients
  // Divides the base weights into ranges over processes; a model with a backward then recomputes
  // its blocks. Empty: the weights are whole.
  MakeRangedWeights make_ranged = {};
  // With make_ranged: the digests of whole weights, since this process reads only its own ranges.
  std::shared_ptr<const FolderDigests> digests = nullptr;
};

struct ForwardOptions {
  RouterRecord* router = nullptr;  // out: the experts chosen (ops/moe_routing.h); null: not wanted
  std::optional<DropoutKey> dropout = std::nullopt;  // of an adapter; nullopt: none
  // [T] float32 on the host: how often the router's record counts a token; undefined: once.
  at::Tensor multiplicity = {};
  // out: keys and values of every layer after RoPE, with their graph; the blocks are then
  // recomputed in the backward (recompute.h). Null: not wanted.
  std::vector<HeldKeys>* keys = nullptr;
  // The keys and values of the input's first P tokens in every layer; only the others are computed.
  // Null: P is 0.
  std::shared_ptr<const std::vector<HeldKeys>> held = nullptr;
  // The experts to take, a [T, k] int64 tensor for each layer (route() in ops/moe_routing.h),
  // undefined in a layer without experts. Null: those that the router chooses.
  std::shared_ptr<const std::vector<at::Tensor>> replay = nullptr;
};

// Not thread-safe: one forward at a time. Tensors of a forward may outlive the model, but their
// backward must not if blocks are recomputed.
class Model {
 public:
  // Loads a Hugging Face folder; of weights in ranges it reads only the ranges of this process.
  // Throws Error for
  //   memory  weights that do not fit into it, before any is read
  //   names   tensors that are missing, unexpected or misshapen; lists them all
  //   values  tensors that hold NaN or infinity or overflow the storage type; lists them all
  //   a head  that differs from the embedding to which config.json ties it
  //   files   that have changed since the digests of weights in ranges were taken
  static std::shared_ptr<Model> load(const std::filesystem::path& dir, const LoadOptions& options);
  // Returns a frozen model that shares the base weights of `model` and has another adapter, or
  // none. Throws Error if those weights are trained.
  static std::shared_ptr<Model> with_adapter(const Model& model,
                                             std::shared_ptr<const Adapter> adapter);
  ~Model();

  const ModelConfig& config() const { return config_; }
  at::ScalarType compute_type() const { return options_.dtype; }
  const LoadOptions& options() const { return options_; }
  bool trainable() const { return options_.trainable; }
  c10::Device device() const { return options_.device; }
  // All parameters; the factors of an adapter come last.
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<Parameter>& trained_parameters() { return trained_; }
  const std::vector<Parameter>& trained_parameters() const { return trained_; }
  const std::shared_ptr<const Adapter>& adapter() const { return options_.adapter; }
  // Returns the base weight with this number. An adapter is merged into it, in fp32; without one it
  // is the weight itself.
  at::Tensor merged(size_t parameter) const;
  // Returns the merged base weights in the form of a checkpoint (core/model/weights/export.h). Each
  // is computed, and rounded to nearest even, when it is read; that throws Error if a value
  // overflows the type. The result refers to the model.
  //   dtype  nullopt: that of the folder the model came from
  ExportedModel exported(std::optional<at::ScalarType> dtype = std::nullopt) const;

  // Returns the hidden states after the last norm, [T, D] in the storage type; row t predicts
  // token t+1. With C held tokens the rows are those after them, [T - C, D]. With a trainable model
  // and gradients enabled the result carries the graph; otherwise no activation outlives its layer.
  // T = 0 is legal. Throws Error for a token outside the vocabulary, a position outside the learned
  // ones, and shapes or cu_seqlens that disagree.
  at::Tensor forward(const PackInput& input, const ForwardOptions& options = {});

  // Returns the weight of the vocabulary projection, [V, D] in the storage type, with its graph if
  // gradients are enabled.
  at::Tensor head_weight();
  // Returns linear_head (ops/linear_head.h) of this model's hidden states and head_weight().
  HeadResult head(const at::Tensor& hidden, const at::Tensor& index, const at::Tensor& target,
                  const HeadOptions& options);

  // Returns the log-probability of each loss row, [R] fp32: linear_head over forward.
  //   row_hidden  [R] int64, rows of the pack whose hidden state predicts the target
  //   row_target  [R] int64, token ids
  at::Tensor token_logprob(const PackInput& input, const at::Tensor& row_hidden,
                           const at::Tensor& row_target, int64_t head_mb = 1024,
                           const ForwardOptions& options = {});

  // Counts changes of the masters. Code that changes them in place must add one; otherwise their
  // copies go stale.
  int64_t update_count = 0;
  // Sets the count after all masters were replaced, as by a restored checkpoint. The new count may
  // be one that other weights had, so everything derived from the old weights is dropped.
  void weights_replaced(int64_t count);
  int64_t times_replaced() const { return times_replaced_; }

  // Makes the model wait for weights that other processes are still sending before it reads them.
  // Code that reads the masters of parameters() calls await_weights() first.
  void add_incoming(std::shared_ptr<IncomingWeights> incoming);
  void await_weights() const;

  // Returns the digest over names, shapes, types and bytes of the masters, in parameter order
  // (model_digest() in model_load.h).
  //   type  the base weights are rounded to it and an adapter is left out; nullopt: neither
  std::string digest(std::optional<at::ScalarType> type = std::nullopt) const;
  // The base weights in ranges; null if they are whole.
  RangedWeights* ranged_weights() const { return ranged_.get(); }
  // Returns the bytes of the masters in this process: all of them, or its ranges.
  int64_t held_bytes() const;

  // Returns a copy that shares no storage, without the adapter.
  std::shared_ptr<Model> clone(bool trainable) const;
  // Returns a frozen copy on the host in the storage type, with the adapter merged. Weights leave
  // the device one at a time.
  std::shared_ptr<Model> host_copy(GemmType gemm = GemmType::kStorage) const;

  // ---- decoding, for the sampler

  // As forward, and also appends the keys and values of every segment to `cache`. With segments of
  // one token it is a decoding step. Never records a graph.
  //   routes  out: the experts chosen, in the form of ForwardOptions::replay; null: not wanted
  at::Tensor forward_cached(const PackInput& input, KvCache& cache,
                            std::vector<at::Tensor>* routes = nullptr);
  // Returns hidden states [n, D] times the head, [n, V] fp32 on the host: in scratch memory
  // (ops/scratch.h), or copied from the device, for which it waits.
  at::Tensor decoding_logits(const at::Tensor& hidden);
  // Packs the head and the linear maps whose products are fp32, for faster products of few rows.
  // The copies take as much memory as these weights in fp32. All decoding at this update count
  // reads them. The next training forward releases them, since a step needs their memory. Does
  // nothing if they are packed, if they would take more than half of the available memory, or on a
  // device other than the CPU. Returns true if they are packed.
  bool pack();
  bool is_packed() const;

 private:
  Model(ModelConfig config, std::vector<Parameter> parameters, const LoadOptions& options,
        std::shared_ptr<RangedWeights> ranged);
  static std::shared_ptr<Model> make(ModelConfig config, std::vector<Parameter> parameters,
                                     const LoadOptions& options,
                                     std::shared_ptr<RangedWeights> ranged = nullptr);
  at::Tensor master(size_t parameter) const;  // whole, without its graph
  // Returns the tensors that a file has for one weight, merged and rounded.
  std::vector<NamedTensor> stored(const WeightSpec& spec, size_t parameter,
                                  at::ScalarType dtype) const;

  // Returns a model of other base weights, without the adapter, each weight as `read` returns it.
  std::shared_ptr<Model> copied(LoadOptions options,
                                const std::function<at::Tensor(size_t parameter)>& read) const;

  void set_loaded_digests(const FolderDigests& digests);
  int64_t base_count() const;           // parameters before the adapter's factors
  const PackedWeights* packed() const;  // null unless packed at this update count
  void release_decoding();

  ModelConfig config_;
  LoadOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<Parameter> trained_;  // those that require a gradient
  double trained_share_ = 0;        // the part of the base weights' elements that is trained
  std::shared_ptr<RangedWeights> ranged_;
  // Digests of weights in ranges as loaded, so that digest() fetches none; empty if unknown.
  struct LoadedDigests {
    std::string masters, rounded;
  };
  LoadedDigests loaded_;
  std::unique_ptr<Decoder> decoder_;
  int64_t times_replaced_ = 0;
  // For decoding; the head is in fp32, until it is packed.
  std::unique_ptr<PackedWeights> packed_;
  at::Tensor decoding_head_;
  int64_t decoding_head_count_ = -1;  // the update count of decoding_head_
};

}  // namespace xrun
