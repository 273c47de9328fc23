#pragma once
// The settings of xrun.kd, one operator for the distillation losses of the literature.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// Cross-tokenizer losses first, then those of one vocabulary.
enum class KdLoss {
  kProjected,  // "p-kl": KL over the teacher's top columns, the student projected onto them
  kGold,       // "gold": KL over exactly common tokens and L1 of the sorted rest
  kRelaxed,    // "h-kl": gold, with the map of the projection's largest weights
  kUld,        // "uld": L1 of sorted probabilities (Boizard et al. 2024)
  kHybrid,     // "hybrid": TRL's GOLD, a generalized JSD on matched tokens and ULD on the rest
  kTopK,       // "topk": KL over the teacher's top columns, one vocabulary
  kFull,       // "full": KL over the whole vocabulary
};

// The mean over the distributions of a chunk's tokens. For one token all three are its softmax.
enum class ChunkMean {
  kArithmetic,  // the mean of probabilities
  kGeometric,   // the mean of log-probabilities, not normalised again
  kChain,       // the first token's, times the probabilities of the text's later tokens
};

struct KdOptions {
  KdLoss loss = KdLoss::kProjected;
  // Divides both sides' logits. The loss is multiplied by its square, except uld and hybrid, which
  // are published without that factor.
  double temperature = 1;
  int64_t top_k = 8192;  // columns of p-kl and topk; of the sorted rest of gold and h-kl
  bool reverse = false;  // KL(student || teacher); not for uld and hybrid
  std::optional<ChunkMean> mean = {};  // on both sides; empty: the published form's
  double beta = 0.5;       // of hybrid's JSD: 0 is KL(teacher || student), 1 the reverse
  int64_t head_mb = 1024;  // MiB of gradients of logits kept for the backward
};

// Returns "p-kl", "gold", ...
const char* kd_loss_name(KdLoss loss);
// Returns all names, in the order of the enumeration.
std::vector<std::string> kd_loss_names();
// Returns the loss of a name. Throws UsageError that lists the names for any other.
KdLoss kd_loss_of(std::string_view name);

// Returns the mean named "arithmetic", "geometric" or "chain". Throws UsageError for any other
// name.
ChunkMean chunk_mean_of(std::string_view name);

// Returns the settings that a loss reads, by their names in a recipe: "temperature", "topk", ...
const std::vector<std::string>& kd_settings(KdLoss loss);

// Throws UsageError for the first name in `given` that the loss does not read: ignoring it would
// silently drop a second loss, or a change of this one.
void check_kd_settings(KdLoss loss, const std::vector<std::string>& given);

// Throws UsageError for a number out of range, and for `reverse` of a loss that has no direction.
void check_kd_options(const KdOptions& options);

}  // namespace xrun
