#pragma once
// The trained model: a Hugging Face folder, its tokenizer, and weights that load when needed.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/model/ops/linear.h"
#include "core/model/weights/adapter.h"
#include "core/train/models/gradient_exchange.h"
#include "core/train/models/logprob_source.h"
#include "core/train/models/saveable.h"

namespace xrun {

class ChatTemplate;
class Reference;
class FetchedModel;
class Tokenizer;

struct PolicyOptions {
  // Storage type of activations, copies and frozen weights; masters are fp32.
  c10::ScalarType dtype = c10::ScalarType::Float;
  GemmType gemm = GemmType::kStorage;  // compute type of products
  int64_t head_mb = 1024;              // MiB of a micro-batch's kept softmax rows and logits
  double moe_aux = 0;      // weight of the balance loss of a mixture of experts in a step
  bool recompute = false;  // compute blocks again in the backward
  std::optional<AdapterOptions> lora = {};           // trained in place of the weights
  std::vector<std::string> train = {};               // patterns of what is trained; empty: all
  uint64_t seed = 0;                                 // of the adapter's initial values
  c10::Device device = c10::kCPU;                    // that it trains on
  std::optional<c10::ScalarType> export_dtype = {};  // nullopt: as in the folder
  // The ranks hold ranges of the weights at level 3, and of a reference's weights from level 1 on.
  DistOptions dist = {};
};

// A policy. Made by open(); held through shared_ptr. Not thread-safe.
class Policy : public LogprobSource,
               public Trainable,
               public Saveable,
               public std::enable_shared_from_this<Policy> {
 public:
  // Reads the configuration and the tokenizer, no weights. The folder of a PEFT adapter opens its
  // base model, and the adapter is trained on. Throws Error that names the folder if it is not a
  // model folder, if the tokenizer has more ids than the embedding, if adapter options do not fit,
  // or if it is a mixture of experts and the device is not the CPU.
  static std::shared_ptr<Policy> open(const std::filesystem::path& dir,
                                      const PolicyOptions& options = {});
  ~Policy() override;

  const std::filesystem::path& dir() const { return dir_; }  // of the base model
  const PolicyOptions& options() const { return options_; }
  // Throws Error if the folder has no tokenizer.
  const std::shared_ptr<const Tokenizer>& tokenizer() const;

  bool trains_adapter() const { return options_.lora || !adapter_dir_.empty(); }
  // Sets the compute type of products. Throws Error once the weights are loaded.
  void use_gemm(GemmType gemm);
  // Sets the template that renders the policy's data; the first call wins. An export includes it if
  // the tokenizer's own template would render differently.
  void use_template(std::shared_ptr<const ChatTemplate> chat_template);
  // Returns the type of exported weights: options().export_dtype, else that of the folder. Loads
  // the weights.
  c10::ScalarType export_dtype();
  // Returns about how many bytes the weights of an export take: the tensors of the folder, in the
  // type of the export. Reads only the headers of the files; throws Error for a bad one.
  int64_t export_bytes() const;
  // Writes the current weights as a Hugging Face folder (core/model/weights/export.h) in that type
  // or in `dtype`, with an adapter merged and also separately, in fp32, in its adapter/.
  void export_to(const std::filesystem::path& out,
                 std::optional<c10::ScalarType> dtype = std::nullopt);

  // Exports the current weights as a classifier of one label: `score` [1, D] replaces the
  // vocabulary projection.
  void export_classifier_to(const std::filesystem::path& out, const at::Tensor& score);

  int64_t vocab() const { return vocab_; }  // rows of the model's embedding
  bool loaded() const override { return model_ != nullptr; }
  // Returns true if answers need weights that are not loaded yet.
  bool needs_weights() const { return !loaded() && !is_replaced(); }
  int64_t update_count() const;  // 0 before the weights are loaded
  // Returns the digest that a frozen model of the compute type has before any update. Loads the
  // weights.
  const std::string& initial_digest();
  std::string digest();  // the same for the current weights

  // Returns a frozen twin of the current weights (reference.h).
  std::shared_ptr<Reference> reference();
  // Loads the frozen model of a reference. With an adapter it shares this policy's base weights;
  // `weights` is then the folder of an adapter, or of the base model for none.
  //   fetched  loads unshared weights in ranges; null: they are whole
  std::shared_ptr<Model> load_frozen(const std::filesystem::path& weights,
                                     FetchedModel* fetched = nullptr);
  // Returns the load options of the frozen model if the policy has no adapter.
  LoadOptions frozen_options() const;
  // Returns true if a training forward has dropout.
  bool has_noise() const;
  // Sets the folder for the weights of references taken after training began.
  void set_snapshot_dir(std::filesystem::path dir) { snapshot_dir_ = std::move(dir); }

  std::vector<Parameter>& parameters() override;
  at::Tensor held_master(size_t parameter, int64_t begin, int64_t size) override;
  bool holds_ranges(size_t parameter) override;
  bool await_before_reading(const std::shared_ptr<IncomingWeights>& incoming) override;
  void count_update() override;
  void weights_averaged(bool averaged) override;
  // True while the weights are an average (core/train/ema.h), which the update count does not show.
  bool is_averaged() const { return averaged_; }

  // Saved are the masters by name, the update count, the digest of the folder's weights, the
  // compute type and the references taken. A run restored in another compute type computes the
  // digests of its references again.
  std::vector<NamedTensor> tensors() const override;
  std::vector<TensorRange> ranges() const override;
  Json state() const override;
  void restore(const TensorSource& tensor, const Json& state) override;

 protected:
  Model& own_model() override;  // loads the weights at the first call
  // The step reports these log-probs, and those of a head for the trained tokens at the batch's
  // temperature, over all columns.
  at::Tensor own_token_logprob(const View& view) override;
  at::Tensor own_logprob(const View& view) override;
  HeadResult own_head(const View& view, const HeadOptions& options,
                      const at::Tensor& target) override;
  at::Tensor own_logits(const View& view) override;
  at::Tensor own_score(const View& view, const ScoreWeight& weight) override;

 private:
  Policy(std::filesystem::path dir, PolicyOptions options);
  void check_train() const;               // throws UsageError for patterns that do not fit
  std::string exported_template() const;  // "": the tokenizer's own will do
  LoadOptions load_options() const;

  // The weights of the k-th reference of this policy; saved, so that the k-th call of a resumed
  // recipe returns the same one.
  struct TakenReference {
    int64_t updates;     // of the policy when it was taken; 0: the folder's weights
    std::string digest;  // "" for the folder's weights
  };
  std::filesystem::path reference_dir(size_t k, const TakenReference& taken) const;
  void write_snapshot(const std::filesystem::path& dir);

  std::filesystem::path dir_, snapshot_dir_;
  std::filesystem::path adapter_dir_;  // of the adapter that is trained on; "": none
  PolicyOptions options_;
  int64_t vocab_ = 0;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_template_;  // null: none was used
  std::unique_ptr<FetchedModel> fetched_;              // null: the weights are whole
  std::shared_ptr<Model> model_;
  std::string initial_digest_;
  std::string folder_digest_;  // of the folder's weights as masters, whatever the compute type
  bool averaged_ = false;
  std::vector<TakenReference> restored_, taken_;
  std::string restored_dtype_;  // the compute type of the run that was saved; "": none was
};

}  // namespace xrun
