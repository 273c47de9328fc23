// computed = flat(pack): a loss row reads the hidden state at flat_of[its slot]. Loss rows with the
// same computed token and target are one prediction, and all of them get its log-prob.

#include "core/train/batches/computed_pack.h"

#include <algorithm>

#include "core/data/packs/packed_batch.h"
#include "core/model/ops/device.h"
#include "core/model/weights/hf_config.h"
#include "core/prefix/folded_pack.h"
#include "core/train/batches/unit.h"

namespace xrun {

namespace {

PackInput folded_input(const PackedBatch& pack, const FoldedPack& fold) {
  PackInput input;
  input.tokens = int64_tensor(fold.tokens);
  input.position_ids = int64_tensor(fold.position_ids);
  input.cu_seqlens = fold.node_begin;
  input.parent = fold.parent;
  // Sequences through a node have equal frequencies, so any of them gives the node's length.
  input.rope_length.assign(fold.parent.size(), 0);
  for (size_t s = 0; s < fold.leaf.size(); ++s) {
    const int32_t length = pack.cu_seqlens[s + 1] - pack.cu_seqlens[s];
    for (int32_t node = fold.leaf[s]; node >= 0; node = fold.parent[static_cast<size_t>(node)]) {
      input.rope_length[static_cast<size_t>(node)] = length;
    }
  }
  return input;
}

at::Tensor flat_indices(const std::vector<int32_t>& slots, const std::vector<int32_t>& flat_of) {
  std::vector<int64_t> flat;
  flat.reserve(slots.size());
  for (const int32_t slot : slots) flat.push_back(flat_of[static_cast<size_t>(slot)]);
  return int64_tensor(flat);
}

ComputedPack computed_whole(const PackedBatch& pack, c10::Device device) {
  ComputedPack out;
  out.input.tokens = int64_tensor(pack.tokens);
  out.input.position_ids = int64_tensor(pack.position_ids);
  out.input.cu_seqlens = pack.cu_seqlens;
  out.row_hidden = on_device(int64_tensor(pack.rows.hidden), device);
  for (size_t s = 1; s < pack.cu_seqlens.size(); ++s) {
    out.last_token.push_back(pack.cu_seqlens[s] - 1);
  }
  return out;
}

ComputedPack computed_folded(const PackedBatch& pack, FoldedPack made, c10::Device device) {
  auto fold = std::make_shared<FoldedPack>(std::move(made));
  ComputedPack out;
  out.input = folded_input(pack, *fold);
  // Each loss row reads the hidden state of the node that holds its token.
  out.row_hidden = on_device(flat_indices(pack.rows.hidden, fold->flat_of), device);
  std::vector<int64_t> edge_hidden;
  for (const int32_t h : fold->edge_hidden) {
    edge_hidden.push_back(fold->hidden[static_cast<size_t>(h)]);
  }
  out.edge_hidden = on_device(int64_tensor(edge_hidden), device);
  out.edge_target = on_device(int64_tensor(fold->edge_target), device);
  out.row_edge = on_device(int64_tensor(fold->row_edge), device);
  // multiplicity[t] = segments that share flat token t; sums over tokens weigh with it.
  std::vector<float> multiplicity(fold->tokens.size(), 0);
  for (const int32_t flat : fold->flat_of) ++multiplicity[static_cast<size_t>(flat)];
  out.multiplicity = float_tensor(multiplicity);
  for (size_t s = 1; s < pack.cu_seqlens.size(); ++s) {
    out.last_token.push_back(fold->flat_of[static_cast<size_t>(pack.cu_seqlens[s] - 1)]);
  }
  out.fold = std::move(fold);
  return out;
}

}  // namespace

std::vector<int64_t> frequency_classes(const PackedBatch& pack, const ModelConfig& config) {
  if (config.positions != Positions::kRotary || !rope_by_length(config.rope)) return {};
  std::vector<int64_t> classes;
  for (size_t s = 0; s + 1 < pack.cu_seqlens.size(); ++s) {
    classes.push_back(
        rope_frequency_class(config.rope, pack.cu_seqlens[s + 1] - pack.cu_seqlens[s]));
  }
  // With one class the fold need not look at classes.
  const bool equal =
      std::adjacent_find(classes.begin(), classes.end(), std::not_equal_to<>()) == classes.end();
  return equal ? std::vector<int64_t>() : classes;
}

ComputedPack computed_pack(const PackedBatch& pack, const FoldSettings& settings,
                           const std::vector<int64_t>& classes, c10::Device device,
                           const std::vector<int32_t>& token_keys) {
  // A tree that saves too little is slower than the plain pack.
  std::optional<FoldedPack> fold = fold_where_it_pays(pack, settings, classes, token_keys);
  return fold ? computed_folded(pack, std::move(*fold), device) : computed_whole(pack, device);
}

ComputedPack computed_tree(const PackedBatch& pack, int64_t min_run, c10::Device device) {
  return computed_folded(pack, fold_pack(pack, {.min_run = min_run}), device);
}

}  // namespace xrun
