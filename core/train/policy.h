#pragma once
// The trained model: a Hugging Face folder, its tokenizer, and weights that load when needed.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/weights/adapter.h"
#include "core/model/ops/linear.h"
#include "core/train/logprob_source.h"
#include "core/train/saveable.h"
#include "core/train/trainable.h"

namespace xrun {

class ChatTemplate;
class ModelStandIn;
class Reference;
class Tokenizer;

struct PolicyOptions {
  // What activations, copies and frozen weights are stored in; masters are fp32.
  c10::ScalarType dtype = c10::ScalarType::Float;
  GemmType gemm = GemmType::kStorage;  // what products compute in
  int64_t head_mb = 1024;              // MiB of a micro-batch's kept softmax rows and logits
  double moe_aux = 0;      // weight of the balance loss in a step; of a mixture of experts
  bool recompute = false;  // blocks are computed again in the backward
  std::optional<AdapterOptions> lora = {};  // trained in place of the weights
  uint64_t seed = 0;                        // of the adapter's start
  c10::Device device = c10::kCPU;           // on which it trains
};

// A policy. Made by open(); held through shared_ptr. Not thread-safe.
class Policy : public LogprobSource,
               public Trainable,
               public Saveable,
               public std::enable_shared_from_this<Policy> {
 public:
  // Reads the configuration and the tokenizer, no weights. The folder of a PEFT adapter opens its
  // base model, and the adapter is trained on. Throws Error that names the folder if it is no
  // model, if the tokenizer has more ids than the embedding, for adapter options that do not fit,
  // and for a mixture of experts on another device than the CPU.
  static std::shared_ptr<Policy> open(const std::filesystem::path& dir,
                                      const PolicyOptions& options = {});
  ~Policy() override;

  const std::filesystem::path& dir() const { return dir_; }  // of the base model
  const PolicyOptions& options() const { return options_; }
  // Throws Error if the folder has no tokenizer.
  const std::shared_ptr<const Tokenizer>& tokenizer() const;

  bool trains_adapter() const { return options_.lora || !adapter_dir_.empty(); }
  // What products compute in, from here on. Throws Error once the weights are loaded.
  void use_gemm(GemmType gemm);
  // The template that renders the policy's data; the first one stands. An export carries it where
  // the tokenizer's own template would render otherwise.
  void use_template(std::shared_ptr<const ChatTemplate> chat_template);
  // Writes the weights as they are now as a Hugging Face folder (core/model/export.h), an adapter
  // merged and, by itself, in adapter/ of it.
  void export_to(const std::filesystem::path& out, c10::ScalarType dtype = c10::ScalarType::Float);

  // The same as a classifier of one label: `score` [1, D] in place of the vocabulary projection.
  void export_classifier_to(const std::filesystem::path& out, const at::Tensor& score);

  // Loads the weights at the first call. Throws Error while a stand-in answers.
  Model& model();
  bool loaded() const override { return model_ != nullptr; }
  int64_t update_count() const;  // 0 before the weights are loaded
  // Digest of the weights before any update, as a frozen model of the compute type has it. Loads
  // the weights.
  const std::string& initial_digest();
  std::string digest();  // the same of the weights as they are now

  // Returns a frozen twin of the weights as they are now (reference.h).
  std::shared_ptr<Reference> reference();
  // Loads what a reference stands for. With an adapter it shares the base weights of this policy:
  // `weights` is then the folder of an adapter, or of the base model, without any.
  std::shared_ptr<Model> load_frozen(const std::filesystem::path& weights);
  // Whether a forward in training differs from one without dropout.
  bool has_noise() const;
  // Where a reference that is taken after training began keeps its weights; the run sets it.
  void set_snapshot_dir(std::filesystem::path dir) { snapshot_dir_ = std::move(dir); }

  // What answers in place of the weights, for a dry run; null: the weights do.
  void set_stand_in(std::shared_ptr<ModelStandIn> source) { stand_in_ = std::move(source); }
  const std::shared_ptr<ModelStandIn>& stand_in() const { return stand_in_; }

  using LogprobSource::logprob;
  using LogprobSource::token_logprob;
  at::Tensor token_logprob(const View& view) override;
  at::Tensor logprob(const View& view) override;

  std::vector<Parameter>& parameters() override;
  void count_update() override;

  // Masters by name; update count, digest of the folder's weights, compute type, references taken.
  // A run restored in another compute type takes the digests of its references anew.
  std::vector<NamedTensor> tensors() const override;
  Json state() const override;
  void restore(const TensorSource& tensor, const Json& state) override;

 private:
  Policy(std::filesystem::path dir, PolicyOptions options);
  std::string exported_template() const;  // "": the tokenizer's own will do
  std::shared_ptr<Model> load_trained() const;

  // What the k-th reference of this policy stands for; saved, so that a resumed recipe gets the
  // same one from its k-th call.
  struct Taken {
    int64_t updates;     // of the policy when it was taken; 0: the folder's weights
    std::string digest;  // "" for the folder's weights
  };
  std::filesystem::path reference_dir(size_t k, const Taken& taken) const;
  void write_snapshot(const std::filesystem::path& dir);

  std::filesystem::path dir_, snapshot_dir_;
  std::filesystem::path adapter_dir_;  // of the adapter that is trained on; "": none
  PolicyOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_template_;  // null: none was used
  std::shared_ptr<Model> model_;
  std::shared_ptr<ModelStandIn> stand_in_;
  std::string initial_digest_;
  std::string folder_digest_;  // of the folder's weights as masters, whatever the compute type
  std::vector<Taken> restored_, taken_;
  std::string restored_dtype_;  // the compute type of the run that was saved; "": none was
};

}  // namespace xrun
