// h_r(v) = dloss / dl_r(v), with g = dloss / dP and b = dloss / dlog P:
//   arithmetic  p_r(v) g(v) / n + b(v) exp(l_r(v) - log P(v)) / n
//   geometric   (P(v) g(v) + b(v)) / n
//   chain       first row: P(v) g(v) + b(v); later rows: the sum of these, at the row's target

#include "core/distill/mean_distribution.h"

#include <algorithm>
#include <cmath>

namespace xrun {

template <class T>
MeanDistribution<T>::MeanDistribution(const ChunkLogits<T>& logits, double temperature,
                                      ChunkMean mean, bool chain_factor, MeanBuffers<T>& buffers)
    : logits_(logits),
      scale_(static_cast<T>(1 / temperature)),
      mean_(logits.rows == 1 ? ChunkMean::kGeometric : mean),
      chain_factor_(chain_factor),
      buffers_(buffers) {
  buffers_.rows.resize(static_cast<size_t>(rows()));
  buffers_.exponentials.resize(static_cast<size_t>(columns()));
  for (int64_t r = 0; r < rows(); ++r) {
    buffers_.rows[r] = softmax_row(logits_.row(r), columns(), scale_, buffers_.exponentials.data());
  }
}

template <class T>
double MeanDistribution<T>::chain_log() const {
  double sum = 0;
  for (int64_t r = 1; chain_factor_ && r < rows(); ++r) {
    sum += std::max<double>(row_log(r, logits_.target[r]), std::log(kLeastChainProbability));
  }
  return sum;
}

template <class T>
double MeanDistribution<T>::log_at(int64_t v) const {
  if (mean_ == ChunkMean::kChain) return row_log(0, v) + chain_log();
  if (mean_ == ChunkMean::kGeometric) {
    double sum = 0;
    for (int64_t r = 0; r < rows(); ++r) sum += row_log(r, v);
    return sum / static_cast<double>(rows());
  }
  double most = row_log(0, v), sum = 0;
  for (int64_t r = 1; r < rows(); ++r) most = std::max<double>(most, row_log(r, v));
  for (int64_t r = 0; r < rows(); ++r) sum += std::exp(row_log(r, v) - most);
  return most + std::log(sum / static_cast<double>(rows()));
}

template <class T>
void MeanDistribution<T>::row_probabilities(int64_t r, T* p) {
  const RowSoftmax row = softmax_row(logits_.row(r), columns(), scale_, p);
  const T factor = static_cast<T>(1 / row.sum);
  for (int64_t v = 0; v < columns(); ++v) p[v] *= factor;
}

template <class T>
const T* MeanDistribution<T>::probabilities() {
  std::vector<T>& P = buffers_.probabilities;
  if (has_probabilities_) return P.data();
  has_probabilities_ = true;
  P.resize(static_cast<size_t>(columns()));
  const int64_t n = rows();
  if (mean_ == ChunkMean::kChain || n == 1) {
    row_probabilities(0, P.data());
    if (n == 1) return P.data();
    const T c = static_cast<T>(std::exp(chain_log()));
    for (T& p : P) p *= c;
  } else if (mean_ == ChunkMean::kArithmetic) {
    std::fill(P.begin(), P.end(), T(0));
    for (int64_t r = 0; r < n; ++r) {
      T* const p = buffers_.exponentials.data();
      row_probabilities(r, p);
      for (int64_t v = 0; v < columns(); ++v) P[v] += p[v] / static_cast<T>(n);
    }
  } else {
    // The mean of the scaled logits below their maximum, exponentiated once.
    std::vector<T>& mean = buffers_.exponentials;
    std::fill(mean.begin(), mean.end(), T(0));
    double shift = 0;
    for (int64_t r = 0; r < n; ++r) {
      const RowSoftmax& row = buffers_.rows[r];
      const T* const z = logits_.row(r);
      const T most = static_cast<T>(row.most), factor = scale_ / static_cast<T>(n);
      for (int64_t v = 0; v < columns(); ++v) mean[v] += (z[v] - most) * factor;
      shift -= row.log_sum / static_cast<double>(n);
    }
    const RowSoftmax all = softmax_row(mean.data(), columns(), T(1), P.data());
    const T factor = static_cast<T>(std::exp(all.most + shift));
    for (T& p : P) p *= factor;
  }
  return P.data();
}

template <class T>
void MeanDistribution<T>::take_mean_logs(const T* log_gradient) {
  buffers_.mean_logs.clear();
  if (mean_ != ChunkMean::kArithmetic || log_gradient == nullptr) return;
  for (int64_t v = 0; v < columns(); ++v) {
    if (log_gradient[v] != 0) buffers_.mean_logs.emplace_back(v, log_at(v));
  }
}

// Fills h of row r, whose probabilities are in `exponentials`.
template <class T>
void MeanDistribution<T>::fill_row_gradient(int64_t r, const T* gradient, const T* log_gradient) {
  const T n = static_cast<T>(rows());
  std::vector<T>& h = buffers_.gradient;
  if (mean_ == ChunkMean::kArithmetic) {
    const std::vector<T>& p = buffers_.exponentials;
    for (int64_t v = 0; v < columns(); ++v) h[v] = gradient == nullptr ? 0 : p[v] * gradient[v] / n;
    for (const auto& [v, mean_log] : buffers_.mean_logs) {
      h[v] += log_gradient[v] * static_cast<T>(std::exp(row_log(r, v) - mean_log)) / n;
    }
    return;
  }
  if (r > 0) return;  // the other means share one vector
  const T* const P = gradient == nullptr ? nullptr : probabilities();
  const T divisor = mean_ == ChunkMean::kGeometric ? n : T(1);
  for (int64_t v = 0; v < columns(); ++v) {
    const T of_log = log_gradient == nullptr ? 0 : log_gradient[v];
    h[v] = (gradient == nullptr ? of_log : P[v] * gradient[v] + of_log) / divisor;
  }
}

template <class T>
void MeanDistribution<T>::backward(const T* gradient, const T* log_gradient, bool sums_to_zero) {
  const int64_t n = rows(), V = columns();
  std::vector<T>& h = buffers_.gradient;
  h.resize(static_cast<size_t>(V));
  // Everything that needs the logits of all rows comes before the first row is overwritten.
  take_mean_logs(log_gradient);
  if (mean_ != ChunkMean::kArithmetic && gradient != nullptr) probabilities();
  // The softmax's backward, dz = h - p sum(h), loses its second term if the caller's gradient sums
  // to 0, as that of a distribution that is normalised after the mean does.
  const bool skip = sums_to_zero && mean_ != ChunkMean::kArithmetic;
  double chain_sum = 0;
  for (int64_t r = 0; r < n; ++r) {
    T* const p = buffers_.exponentials.data();
    T* const dz = logits_.row(r);
    const bool later = mean_ == ChunkMean::kChain && r > 0;
    const int64_t target = later && chain_factor_ ? logits_.target[r] : 0;
    const bool constant =
        later && (!chain_factor_ || row_log(r, target) < std::log(kLeastChainProbability));
    if (!skip) row_probabilities(r, p);
    double sum = constant ? 0 : chain_sum;
    if (!later) {
      fill_row_gradient(r, gradient, log_gradient);
      sum = 0;
      if (!skip) {
        for (int64_t v = 0; v < V; ++v) sum += h[v];
      }
      chain_sum = sum;
    }
    const T total = static_cast<T>(sum);
    for (int64_t v = 0; v < V; ++v) {
      const T own = later ? T(0) : h[v];
      dz[v] = scale_ * (skip ? own : own - p[v] * total);
    }
    // A later row of a chain multiplies P by the probability of its target alone.
    if (later && !skip) dz[target] += scale_ * total;
    std::fill(dz + V, dz + logits_.stride, T(0));
  }
}

template class MeanDistribution<float>;
template class MeanDistribution<double>;

}  // namespace xrun
