#pragma once
// Routing in a mixture of experts: the choice of experts, with a fixed order of ties; the order of
// rows by expert; load and balance.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/ops/op_memory.h"

namespace xrun {

// The experts of each token.
struct Routing {
  // [T, k] int64, by falling probability; of equal ones the lowest index first
  at::Tensor index;
  at::Tensor weight;  // [T, k] in the logits' type, with its graph
  at::Tensor prob;    // [T, E] softmax over all experts, fp32 (fp64 of fp64), with its graph
};

// The experts that were chosen for tokens in an earlier forward: [n, layers, top_k] indices in the
// order of Routing::index, -1 in layers without experts and where they are unknown.
struct TokenRoutes {
  int64_t layers = 0, top_k = 0;
  std::vector<int16_t> experts = {};

  int64_t width() const { return layers * top_k; }
  int64_t token_count() const {
    return width() == 0 ? 0 : static_cast<int64_t>(experts.size()) / width();
  }
  // Drops the tokens from n on.
  void truncate(int64_t n) {
    if (token_count() > n) experts.resize(static_cast<size_t>(n * width()));
  }
};

// Returns the routing by raw logits, as in Qwen3-MoE: the softmax over all experts in fp32, its top
// k, divided by their sum if `renormalise` and rounded to the logits' type. The sampler and the
// trainer share it. T = 0 is legal.
//   logits  [T, E] floating
//   chosen  [T, k] int64, the experts to take instead of the top k, weighted by these logits (R3,
//           arXiv 2510.11370); a token with a negative one takes its top k. Undefined: all do.
// Throws Error unless 1 <= top_k <= E.
Routing route(const at::Tensor& logits, int64_t top_k, bool renormalise,
              const at::Tensor& chosen = {});

// Declares what the backward of route saves: a token's probabilities, the index, and the weights
// before and after the division.
void route_saves(SavedTensors& saved, double experts, double top_k);

// The rows of a mixture, one for each token and expert of it: its T k slots sorted by expert and,
// within one, by token.
struct ExpertRows {
  std::vector<int64_t> begin;  // [E+1]; the rows of expert e are [begin[e], begin[e + 1])
  at::Tensor slot;             // [T k] int64, the slot t k + j of each row
  at::Tensor token;            // [T k] int64, the token of each row
  at::Tensor of_token;         // [T, k] int64, the rows of each token, ascending
};

// Sorts the slots; a function of the index only.
//   index  [T, k] int64 on the CPU; the caller checks that it is in [0, experts)
ExpertRows expert_rows(const at::Tensor& index, int64_t experts);

// Returns the sum of each token's rows, [T, D] in the type of x, added in fp32 by rising expert.
//   x       [T k, D] floating, contiguous, by row
//   weight  [T k] by row, in the type of x; undefined: 1
at::Tensor sum_of_rows(const at::Tensor& x, const at::Tensor& weight, const ExpertRows& rows);

// Routing statistics of one forward, a layer at a time.
struct RouterRecord {
  struct Layer {
    at::Tensor count;     // [E] float64, slots that chose each expert; no gradient
    at::Tensor prob_sum;  // [E] fp32, sums of the softmax over tokens, with its graph
  };
  std::vector<Layer> layers;
  int64_t tokens = 0;  // T
  int64_t top_k = 0;

  // Adds a layer in which token t counts multiplicity[t] times, [T] float32 whole numbers;
  // undefined: once.
  void add_layer(const Routing& routing, const at::Tensor& multiplicity = {});
};

// Sums of records over the micro-batches of a step.
struct RouterTotals {
  std::vector<at::Tensor> count, prob_sum;  // by layer: [E] float64
  double tokens = 0;
  int64_t top_k = 0;

  void add(const RouterRecord& record);
};

// Returns the mean over layers of E sum_e f_e P_e, with f_e = count_e / tokens and P_e = prob_sum_e
// / tokens: the balance loss of Switch (Fedus et al. 2021, eq. 4) per layer. It is top_k when
// balanced, and 0 without tokens or layers.
double balance(const RouterTotals& totals);

// Returns one micro-batch's share of the balance loss, a 0-dim fp32 tensor with its graph, from the
// counts of the step and the probabilities of the record. The shares of a step add up to balance().
at::Tensor balance_share(const RouterRecord& record, const RouterTotals& step);

// The spread of tokens over experts, in multiples of an even share: count_e E / (tokens top_k).
struct ExpertLoad {
  double largest = 0, smallest = 0;  // over all layers and experts
  double idle = 0;                   // share of the (layer, expert) pairs that no token chose
};

// Returns the load; all 0 without tokens or layers.
ExpertLoad expert_load(const RouterTotals& totals);

}  // namespace xrun
