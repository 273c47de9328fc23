// Every index is checked on the host before it is used. One outside its table would read other
// memory on a CPU, and on a GPU fail an assertion that does not name it.

#include "core/model/pack_input.h"

#include <ATen/ops/from_blob.h>

#include "core/base/error.h"
#include "core/model/ops/attention_layout.h"
#include "core/model/ops/rope.h"

namespace xrun {

namespace {

// Throws Error unless every value is in [0, limit).
void check_range(const at::Tensor& values, int64_t limit, const char* what, const char* where) {
  const at::Tensor rows = values.contiguous();
  const int64_t* const value = rows.const_data_ptr<int64_t>();
  for (int64_t t = 0; t < rows.numel(); ++t) {
    XRUN_CHECK(value[t] >= 0 && value[t] < limit, "{} {} of the pack is {}, outside {} {}", what, t,
               value[t], where, limit);
  }
}

// A node of a tree may be shared by sequences that are longer than its own last position.
void check_rope_length(const PackInput& input, const ModelConfig& config) {
  const size_t nodes = input.cu_seqlens.size() - 1;
  XRUN_CHECK(input.rope_length.empty() || input.rope_length.size() == nodes,
             "pack: rope_length has {} entries, wanted {}, one per node", input.rope_length.size(),
             nodes);
  XRUN_CHECK(input.parent.empty() || !input.rope_length.empty() ||
                 config.positions != Positions::kRotary || !rope_by_length(config.rope),
             "pack: a tree needs rope_length, since this model's RoPE depends on the length of a "
             "sequence");
}

}  // namespace

void check_pack_input(const PackInput& input, const ModelConfig& config) {
  // tokens, position_ids [T]; cu_seqlens [N + 1]; parent, rope_length [N] or empty.
  const int64_t T = input.tokens.numel();
  XRUN_CHECK(
      input.tokens.dim() == 1 && input.position_ids.dim() == 1 && input.position_ids.size(0) == T,
      "a pack needs as many positions as tokens; it has {} and {}", input.position_ids.numel(), T);
  XRUN_CHECK(
      input.tokens.scalar_type() == at::kLong && input.position_ids.scalar_type() == at::kLong,
      "tokens and positions must be int64");
  const std::vector<int64_t> cu(input.cu_seqlens.begin(), input.cu_seqlens.end());
  const std::vector<int64_t> parent(input.parent.begin(), input.parent.end());
  check_layout("pack", cu, parent, 0, T);
  check_rope_length(input, config);
  check_range(input.tokens, config.vocab, "token", "the model's vocabulary of");
  if (config.positions == Positions::kLearned) {
    check_range(input.position_ids, config.max_length, "position",
                "the model's learned positions,");
  }
}

int64_t held_tokens(const PackInput& input, const ModelConfig& config,
                    const ForwardOptions& options) {
  if (!options.held) return 0;
  XRUN_CHECK(!options.held->empty() && std::ssize(*options.held) == config.layers,
             "pack: held keys of {} layers, the model has {}", options.held->size(), config.layers);
  const int64_t tokens = options.held->front().k.size(0);
  XRUN_CHECK(tokens <= input.tokens.size(0), "pack: held keys of {} tokens, the pack has {}",
             tokens, input.tokens.size(0));
  return tokens;
}

at::Tensor int64_tensor(const std::vector<int64_t>& values) {
  // from_blob borrows the memory, the clone owns its own.
  return at::from_blob(const_cast<int64_t*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::kLong)
      .clone();
}

PackInput pack_sequences(const std::vector<std::vector<int32_t>>& sequences) {
  std::vector<int64_t> tokens, positions;
  PackInput input;
  input.cu_seqlens.push_back(0);
  for (const std::vector<int32_t>& sequence : sequences) {
    for (size_t t = 0; t < sequence.size(); ++t) {
      tokens.push_back(sequence[t]);
      positions.push_back(static_cast<int64_t>(t));
    }
    input.cu_seqlens.push_back(static_cast<int32_t>(tokens.size()));
  }
  input.tokens = int64_tensor(tokens);
  input.position_ids = int64_tensor(positions);
  return input;
}

}  // namespace xrun
