#pragma once
// The mean of the softmax distributions of a chunk's tokens, and its gradient.

#include <cstdint>
#include <utility>
#include <vector>

#include "core/distill/kd_options.h"
#include "core/model/ops/logit_rows.h"

namespace xrun {

// The logits of a chunk's tokens: row r predicts target[r], the chunk's token r.
template <class T>
struct ChunkLogits {
  T* z = nullptr;  // [rows, stride]; the first `columns` of a row exist
  int64_t rows = 0, stride = 0, columns = 0;
  const int64_t* target = nullptr;  // [rows]; only ChunkMean::kChain reads it

  T* row(int64_t r) const { return z + r * stride; }
};

// TRL clamps the probability of a chain's later tokens to this.
inline constexpr double kLeastChainProbability = 1e-8;

// Buffers that a thread reuses from chunk to chunk.
template <class T>
struct MeanBuffers {
  std::vector<RowSoftmax> rows;
  std::vector<T> exponentials;   // [columns]
  std::vector<T> probabilities;  // [columns]
  std::vector<T> gradient;       // [columns], of one row's log-probabilities
  // Columns with a gradient of log P, and log P there: an arithmetic mean needs it after the first
  // row has been overwritten.
  std::vector<std::pair<int64_t, double>> mean_logs;
};

// With p_r = softmax(z_r / temperature), l_r = log p_r, n rows:
//   arithmetic  P = mean_r p_r
//   geometric   P = exp(mean_r l_r), whose sum may be below 1
//   chain       P = p_1 c with c = prod_(r > 1) max(p_r(y_r), kLeastChainProbability)
// One row is its softmax for each of them.
template <class T>
class MeanDistribution {
 public:
  // The logits and buffers must outlive it.
  //   chain_factor  false: c = 1, for a loss that divides by a sum over P. The factor of a long
  //                 chain underflows, and its gradient would be 0.
  MeanDistribution(const ChunkLogits<T>& logits, double temperature, ChunkMean mean,
                   bool chain_factor, MeanBuffers<T>& buffers);

  int64_t rows() const { return logits_.rows; }
  int64_t columns() const { return logits_.columns; }
  const ChunkLogits<T>& logits() const { return logits_; }

  // log p_r(v), rounded once.
  T row_log(int64_t r, int64_t v) const {
    return row_logprob(logits_.row(r)[v], buffers_.rows[r], scale_);
  }

  // log P(v), finite even where P underflows.
  double log_at(int64_t v) const;

  // P over all columns, computed on the first call.
  const T* probabilities();

  // Overwrites the logits with the gradient of a loss given those of P and log P, [columns] each,
  // null for zeros: with h_r = dloss / dl_r, dz_r = (h_r - p_r sum h_r) / temperature. Padding gets
  // 0.
  //   sums_to_zero  the loss is unchanged if P is scaled, so sum h_r = 0 for a geometric mean or a
  //                 chain, and the pass over p_r is left out
  void backward(const T* gradient, const T* log_gradient, bool sums_to_zero);

 private:
  double chain_log() const;  // log c
  void row_probabilities(int64_t r, T* p);
  void fill_row_gradient(int64_t r, const T* gradient, const T* log_gradient);
  void take_mean_logs(const T* log_gradient);

  ChunkLogits<T> logits_;
  T scale_;
  ChunkMean mean_;
  bool chain_factor_;
  MeanBuffers<T>& buffers_;
  bool has_probabilities_ = false;
};

}  // namespace xrun
