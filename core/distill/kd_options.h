#pragma once
// The settings of xrun.kd: one operator, of which the losses of the literature are choices.

#include <cstdint>
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

// The mean of a chunk's distributions over its tokens.
enum class ChunkMean { kArithmetic, kGeometric, kChain };

struct KdOptions {
  KdLoss loss = KdLoss::kProjected;
  double temperature = 1;  // divides both sides' logits; the loss is multiplied by its square
  int64_t top_k = 8192;    // columns of p-kl and topk; of the sorted rest of gold and h-kl
  bool reverse = false;    // KL(student || teacher)
  int64_t head_mb = 1024;  // MiB of logits that a call keeps; others are recomputed
};

// Returns "p-kl", "gold", ...
const char* kd_loss_name(KdLoss loss);
// All names, in the order of the enumeration.
std::vector<std::string> kd_loss_names();
// Throws Error that lists the names.
KdLoss kd_loss_of(std::string_view name);

}  // namespace xrun
