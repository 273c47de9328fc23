#pragma once
// Small pairs, batches and policies for the tests of the trainer.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/train/batches/batch.h"
#include "core/train/objective.h"

namespace xrun {

class Policy;
class Reference;

struct TinyPair {
  std::vector<int32_t> prompt, chosen, rejected;
  float weight = 1;
};

// n pairs of pseudo-random ids below 250 and uneven lengths, a pure function of (n, seed).
std::vector<TinyPair> tiny_pairs(int64_t n, uint64_t seed = 0);

// The same with sides that share the first tokens of their answer, and every second pair with the
// prompt of the one before it; ids below `vocab`.
std::vector<TinyPair> shared_prefix_pairs(int64_t n, uint64_t seed = 3, int32_t vocab = 250);

// Packs of the given pairs, `per_pack` pairs each, in reverse order inside a pack if asked; pair_id
// and row_id are indices into `pairs`.
std::vector<PackedBatch> tiny_packs(const std::vector<TinyPair>& pairs, size_t per_pack,
                                    bool reversed = false);
std::shared_ptr<Batch> tiny_batch(const std::vector<TinyPair>& pairs, size_t per_pack,
                                  BatchInfo info = {});

// Information of a batch that folds shared runs of at least `min_run` tokens.
BatchInfo fold_info(FoldMode mode, int64_t min_run = 1);

// A folder that is removed at the end; $XRUN_CACHE points into it meanwhile.
class TinyFolder {
 public:
  TinyFolder();
  ~TinyFolder();
  const std::filesystem::path& path() const { return path_; }
  // Writes a random two-layer Llama whose log-probs are far from uniform; returns its folder.
  std::filesystem::path model(uint64_t seed = 0) const;

 private:
  std::filesystem::path path_;
};

// The objective of recipes/dpo.lua.
Objective dpo(std::shared_ptr<Policy> policy, std::shared_ptr<Reference> reference, double beta);

// A loss whose values are 0 or 1, with an infinite gradient for the pairs from `first` on.
Objective infinite_slope(std::shared_ptr<Policy> policy, int64_t first);

}  // namespace xrun
