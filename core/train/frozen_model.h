#pragma once
// A frozen model with its own tokenizer and type: a teacher, or the reference of another folder.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/train/frozen_logprobs.h"
#include "core/train/frozen_rows.h"
#include "core/train/gradient_exchange.h"
#include "core/train/logprob_source.h"

namespace xrun {

class MicroBatch;
class Model;
class ShardedModel;
class Tokenizer;
struct CompanionPack;

struct FrozenOptions {
  FrozenSettings settings = {};
  // A folder whose vocabulary the model has; "": that of the model's own tokenizer.
  std::filesystem::path tokenizer = {};
  // Values for distillation that are stored by row.
  FrozenCache cache = FrozenCache::kNone;
  int64_t top_k = 64;  // columns of a row under kTopColumns
  // From level 1 on the ranks hold ranges of the weights.
  DistOptions dist = {};
};

// A model that is never trained, recorded, exported or saved. Its weights load at the first answer
// that no sidecar has. As a source of log-probs it works like a reference (reference.h): logprob()
// reads a sidecar of sums by row, all else runs the model over the whole micro-batch. Every answer
// to tokens of another vocabulary throws an Error that names both. Not thread-safe.
class FrozenModel : public LogprobSource {
 public:
  // Reads the configuration and the tokenizer, no weights. The folder of a PEFT adapter opens its
  // base model under the adapter. Throws Error that names the folder if it is not a model, if its
  // tokenizer is not the one of options.tokenizer, or if that has more ids than the embedding.
  static std::shared_ptr<FrozenModel> open(const std::filesystem::path& dir,
                                           const FrozenOptions& options = {});
  ~FrozenModel() override;

  const std::filesystem::path& dir() const { return dir_; }
  const FrozenOptions& options() const { return options_; }
  // Sets the compute type of products, before the weights load.
  void use_gemm(GemmType gemm);
  const std::filesystem::path& base_dir() const { return base_; }  // of the base model
  // Throws Error if the folder has no tokenizer and no other one was named.
  const std::shared_ptr<const Tokenizer>& tokenizer() const;
  const std::string& fingerprint() const;   // of the tokenizer's vocabulary
  int64_t vocab() const { return vocab_; }  // rows of the embedding
  int64_t columns() const;                  // of them, those that the tokenizer has ids for
  bool loaded() const { return model_ != nullptr; }
  bool needs_weights() const { return !loaded() && !is_replaced(); }

  // A hash of the files of weights and configuration. Loads nothing.
  const std::string& digest();
  // Hashes loaded weights again. Throws Error if they changed in memory.
  void check_digest();

  // True if the tokens of a batch are of this model's vocabulary, or the batch does not say. Throws
  // Error if the model has no tokenizer to compare.
  bool reads_tokens_of(const MicroBatch& micro) const;
  // Throws Error that names both unless it reads the batch's own tokens, and if one of the batch's
  // sequences is longer than the model reads.
  void check_tokens(const MicroBatch& micro) const;
  // The tokens that this model reads for a micro-batch, with the rows that predict its chunks: the
  // batch's own, or those of its companion. Throws Error if it has neither.
  CompanionPack tokens_of(const MicroBatch& micro) const;

  // For distillation, without gradient. `tokens` are those of tokens_of().
  // Hidden states of their rows, [R, D], and the weight of the vocabulary projection for them,
  // [V, D]. Under kHidden only that weight is loaded once all rows are stored.
  at::Tensor row_hidden(MicroBatch& micro, const CompanionPack& tokens);
  at::Tensor head_weight();
  // Log-prob of the target, log-sum-exp and top k of the same rows, [R] and [R, k]. Throws Error if
  // kTopColumns stores fewer than k.
  HeadResult row_columns(MicroBatch& micro, const CompanionPack& tokens, int64_t k,
                         double temperature);

  FrozenLogprobs& logprobs() { return logprobs_; }
  // Segments that the rows of a cache were read from and computed for.
  FrozenRows::Counts row_counts() const;
  // Writes computed values to disk; the second without waiting for a device.
  void flush();
  void flush_arrived();

 protected:
  Model& own_model() override;
  at::Tensor own_token_logprob(const View& view) override;
  at::Tensor own_logprob(const View& view) override;
  HeadResult own_head(const View& view, const HeadOptions& options,
                      const at::Tensor& target) override;
  at::Tensor own_logits(const View& view) override;
  at::Tensor own_score(const View& view, const ScoreWeight& weight) override;

 private:
  void check_length(const PackedBatch& pack) const;
  FrozenModel(std::filesystem::path dir, FrozenOptions options);
  FrozenSource source();
  FrozenRows& rows(double temperature);
  const std::string& fingerprint_of(const MicroBatch& micro) const;  // "": unknown

  std::filesystem::path dir_, base_;  // equal without an adapter
  FrozenOptions options_;
  int64_t vocab_ = 0;
  int64_t max_length_ = 0;                      // max_position_embeddings; 0: unknown
  std::shared_ptr<const Tokenizer> tokenizer_;  // null: there is none
  mutable std::string fingerprint_;
  // Fingerprints of the tokenizers of batches seen so far.
  mutable std::map<std::shared_ptr<const Tokenizer>, std::string> known_tokenizers_;
  std::string digest_, loaded_digest_;
  std::unique_ptr<ShardedModel> sharded_;  // null: the weights are whole
  std::shared_ptr<Model> model_;
  at::Tensor head_;  // loaded alone; undefined before
  FrozenLogprobs logprobs_;
  std::map<double, std::unique_ptr<FrozenRows>> rows_;  // by temperature
};

}  // namespace xrun
