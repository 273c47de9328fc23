#pragma once
// Prompts with answers of other rows, for what is measured on unrelated pairs (KTO's baseline).

#include <memory>

namespace xrun {

class Batch;

// Returns a batch of as many sequences: the prompt of sequence i (its tokens before the first
// trained one) with the answer of sequence i - 1 (its tokens from there on, trained as they were),
// the first with the last one's. In batch order, each with the weight of its prompt's row; rows
// have the id -1, so that nothing of it is cached. Packs take as many tokens as the batch's own; an
// answer is cut at its end where the sequence would be longer than they or the data's max_length.
// Throws Error for pairs and for a batch of fewer than two sequences.
std::shared_ptr<Batch> mismatched_batch(const Batch& batch);

}  // namespace xrun
