#pragma once
// A frozen model with its own tokenizer and type: a teacher, a reference from another folder, or a
// classifier that gives rewards or values.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/text/tokenizer/vocabulary_fingerprint.h"
#include "core/train/models/frozen_logprobs.h"
#include "core/train/models/frozen_rows.h"
#include "core/train/models/gradient_exchange.h"
#include "core/train/models/logprob_source.h"

namespace xrun {

class Batch;
class MicroBatch;
class Model;
class FetchedModel;
class Tokenizer;
struct ModelConfig;
struct CompanionPack;
struct LoadOptions;

struct FrozenOptions {
  FrozenSettings settings = {};
  bool stays_on_cpu = false;  // set by the recipe, whatever the device of the run
  // The folder of its tokenizer; "": the model's own.
  std::filesystem::path tokenizer = {};
  // Values for distillation that are stored by row.
  FrozenCache cache = FrozenCache::kNone;
  int64_t top_k = 64;  // columns of a row under kTopColumns
  // From level 1 on the ranks hold ranges of the weights.
  DistOptions dist = {};
};

// A model that is never trained, recorded, exported or saved. Its weights load at the first answer
// that no sidecar has. As a source of log-probs it works like a reference (reference.h): logprob()
// reads a sidecar of sums by row; all other calls run the model over the whole micro-batch. Every
// call for tokens of another vocabulary throws an Error that names both. A sequence classifier of
// one label, as a Scorer exports it, gives only scores. A model on the CPU, with batches on a GPU,
// gives only what distillation reads and log-probs of sequences and chunks. Not thread-safe.
class FrozenModel : public LogprobSource {
 public:
  // Reads the configuration and the tokenizer, no weights. The folder of a PEFT adapter opens its
  // base model under the adapter. Throws Error that names the folder if it is not a model or is a
  // classifier of several labels, if its vocabulary is not that of options.tokenizer, or if the
  // tokenizer has more ids than the embedding.
  static std::shared_ptr<FrozenModel> open(const std::filesystem::path& dir,
                                           const FrozenOptions& options = {});
  ~FrozenModel() override;

  const std::filesystem::path& dir() const { return dir_; }
  const FrozenOptions& options() const { return options_; }
  // Sets the compute type of products, before the weights load.
  void use_gemm(GemmType gemm);
  const std::filesystem::path& base_dir() const { return base_; }  // of the base model
  const ModelConfig& config() const { return *config_; }           // of the base model
  // Throws Error if the folder has no tokenizer and options name no other.
  const std::shared_ptr<const Tokenizer>& tokenizer() const;
  const std::string& fingerprint() const;  // of the tokenizer's vocabulary
  int64_t vocab() const;                   // rows of the embedding
  int64_t columns() const;                 // the rows that the tokenizer has ids for
  bool loaded() const { return model_ != nullptr; }
  bool needs_weights() const { return !loaded() && !is_replaced(); }

  // A hash of the files of weights and configuration. Loads nothing.
  const std::string& digest();
  // Hashes loaded weights again. Throws Error if they changed in memory.
  void check_digest();

  // Returns true if the tokens of a batch are of this model's vocabulary, one of the two extends
  // the other, or the batch does not say. Throws Error if the model has no tokenizer to compare.
  bool reads_tokens_of(const MicroBatch& micro) const;
  // Throws Error
  //   if the batch's tokens are not of this model's vocabulary; the message names both
  //   if the batch has a token that only its own vocabulary has
  //   if a sequence of the batch is longer than the model reads
  void check_tokens(const MicroBatch& micro) const;
  // Returns the tokens that this model reads for a micro-batch, with the rows that predict its
  // chunks: those of a companion in its vocabulary, or the batch's own. Throws Error if it reads
  // neither, or if a sequence is longer than it reads.
  CompanionPack tokens_of(const MicroBatch& micro) const;
  // Returns the number of columns that it shares with a batch whose tokens it reads: fewer than
  // columns() if its vocabulary extends the batch's.
  int64_t common_columns(const MicroBatch& micro) const;

  // Returns log p of each chunk of a view, [C] float32 without gradient, in the order of losses by
  // chunk: the sum over this model's tokens, at the batch's temperature. If the batch has no chunks
  // for this model, returns log p of each trained token, [R]. Throws Error for a part of a
  // micro-batch with chunks.
  at::Tensor chunk_logprob(const View& view);
  at::Tensor chunk_logprob(Batch& batch);  // of all micro-batches, in the order of the packs

  // Return a classifier's scores, float32 without gradient. score() gives one per sequence, [n], at
  // its last token: of the companion if one is in the model's vocabulary, else of the batch.
  // token_score() gives one per trained token, [R], at the position that predicts it. Throw Error
  // for a language model.
  using LogprobSource::score;
  at::Tensor score(const View& view);
  at::Tensor score(Batch& batch);
  at::Tensor token_score(const View& view);
  at::Tensor token_score(Batch& batch);

  // For distillation, without gradient. `tokens` are those of tokens_of(), of this model or of
  // another one with its vocabulary. Throw Error for a sequence longer than this model reads.
  // Hidden states of their rows, [R, D], and the weight of the vocabulary projection for them,
  // [V, D]. Under kHidden, once all rows are stored, only that weight is loaded.
  at::Tensor row_hidden(MicroBatch& micro, const CompanionPack& tokens);
  at::Tensor head_weight();
  // Log-prob of the target, log-sum-exp and k columns of the same rows, [R] and [R, k]. The columns
  // are those of the row's chunk (chunk_columns.h). Throws Error if kTopColumns stores fewer than
  // k.
  struct ColumnOptions {
    int64_t k = 0;  // 0: no columns
    double temperature = 1;
    int64_t columns = 0;  // the first ones that count; 0: columns()
  };
  HeadResult row_columns(MicroBatch& micro, const CompanionPack& tokens,
                         const ColumnOptions& options);

  FrozenLogprobs& logprobs() { return logprobs_; }
  // Returns the counts of segments whose rows came from a cache or were computed.
  SidecarCounts row_counts() const;
  // Write computed values to disk; flush_arrived() does not wait for a device.
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
  void check_length(const std::vector<int32_t>& cu_seqlens, bool companion) const;
  void check_device(const MicroBatch& micro) const;
  FrozenModel(std::filesystem::path dir, FrozenOptions options);
  FrozenSource source();
  LoadOptions load_options() const;                    // of a model that is whole
  std::vector<std::filesystem::path> folders() const;  // of the base model and the adapter
  std::string files_state() const;                     // weight_files_state() of both
  // Sets the digest. Ranks (null: none) share the reading, so each of them makes the call.
  void take_digest(Ranks* ranks);
  FrozenRows& rows(double temperature, int64_t columns);
  const CompanionPack* companion_of(const MicroBatch& micro) const;  // in its vocabulary; or null
  void check_head(bool classifier) const;
  const at::Tensor& score_weight();  // [1, D] fp32
  // A vocabulary seen in batches, with the result of its comparison.
  struct KnownVocabulary {
    std::string fingerprint = {};  // "": unknown
    VocabularyMatch match = VocabularyMatch::kEqual;
    int64_t size = 0;
  };
  const KnownVocabulary& vocabulary_of(const MicroBatch& micro) const;

  std::filesystem::path dir_, base_;  // equal without an adapter
  FrozenOptions options_;
  std::unique_ptr<const ModelConfig> config_;   // of the base model
  std::shared_ptr<const Tokenizer> tokenizer_;  // null: there is none
  mutable std::string fingerprint_;
  mutable std::map<std::shared_ptr<const Tokenizer>, KnownVocabulary> known_;  // of batches
  std::string digest_, digested_state_;    // of the files, and their state when they were read
  std::string loaded_digest_;              // of the weights in memory
  std::unique_ptr<FetchedModel> fetched_;  // null: the weights are whole
  std::shared_ptr<Model> model_;
  at::Tensor head_;   // loaded alone; undefined before
  at::Tensor score_;  // of score_weight(); undefined before
  FrozenLogprobs logprobs_;
  std::map<std::pair<double, int64_t>, std::unique_ptr<FrozenRows>> rows_;  // temperature, columns
};

}  // namespace xrun
