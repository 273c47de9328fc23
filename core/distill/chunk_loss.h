#pragma once
// The distillation loss of one chunk and its gradient, from the logits of the chunk's tokens.

#include <cstdint>
#include <functional>
#include <vector>

#include "core/distill/kd_options.h"
#include "core/distill/mean_distribution.h"
#include "core/distill/support_set.h"
#include "core/distill/vocabulary_map.h"
#include "core/model/ops/logit_rows.h"

namespace xrun {

// The cached teacher rows of one chunk. All of them have the same columns.
struct CachedRows {
  const int64_t* id = nullptr;     // [k], by falling mean log-probability
  const float* logprob = nullptr;  // [rows, k]
  int64_t rows = 0, k = 0;
};

// Holds buffers, so each thread needs its own. T is float or double; sums run in double.
template <class T>
class ChunkLoss {
 public:
  // The map must outlive the object; null if the form needs none.
  ChunkLoss(const KdOptions& options, const VocabularyMap* map);

  // Returns the loss of a chunk with at least one row on each side. With `gradient` the student's
  // logits are overwritten with the gradient of the loss.
  double operator()(const ChunkLogits<T>& student, const ChunkLogits<T>& teacher, bool gradient);

  // Returns the loss against cached rows, for support columns kTop.
  double operator()(const ChunkLogits<T>& student, const CachedRows& teacher, bool gradient);

  // Return the loss of a form that reads_support_alone(). `logs(row, columns, out)` writes the
  // student's log-probabilities of a row at these columns; it is called once per row read. An
  // unprojected loss has the same bits as in the calls above.
  using SupportLogs =
      std::function<void(int64_t row, const std::vector<int32_t>& columns, T* logprob)>;
  double operator()(int64_t student_rows, const SupportLogs& logs, const CachedRows& teacher);
  double operator()(int64_t student_rows, const SupportLogs& logs, const ChunkLogits<T>& teacher);

  // After such a call the gradient of a row's logits is h - p sum(h), with p their softmax at the
  // temperature. sum(h) is 0 unless the loss is projected.
  //   support           [K], columns, which may repeat; h is 0 elsewhere
  //   support_gradient  h, [K] for every row (of a chain: for the first row alone); of a projected
  //                     loss [rows, K]
  //   support_sum       sum(h), [rows] of a projected loss, else empty
  const std::vector<int32_t>& support() const { return form_.projected ? source_ : columns_; }
  const std::vector<T>& support_gradient() const { return support_gradient_; }
  const std::vector<T>& support_sum() const { return support_sum_; }
  bool of_first_row_alone() const { return form_.student == ChunkMean::kChain; }

 private:
  using Mean = MeanDistribution<T>;

  void clear_gradients(int64_t columns);
  void backward(Mean& student);
  void choose_columns(const Mean& teacher);
  void choose_columns(const CachedRows& teacher);
  double compare_support(int64_t student_rows, const SupportLogs& logs);
  double compare_sources(int64_t student_rows, const SupportLogs& logs);
  template <class RowLog>
  double compare_columns(Mean& student, int64_t teacher_rows, const RowLog& row_log);
  template <class RowLog>
  void fill_teacher_log(int64_t rows, const RowLog& row_log);
  double normalised_kl();
  double projected_kl(Mean& student);
  double compare_projection();
  double common_kl(Mean& student, Mean& teacher);
  double common_jensen_shannon(Mean& student, Mean& teacher);
  double sorted_rest(Mean& student, Mean& teacher);

  KdOptions options_;
  SupportForm form_;
  const VocabularyMap* map_;
  double factor_;  // of the loss: the squared temperature or 1
  MeanBuffers<T> student_buffers_, teacher_buffers_;
  std::vector<T> gradient_, log_gradient_;  // [Vs] of P and log P, or empty
  std::vector<int32_t> columns_;            // [K] rising, the support
  std::vector<int32_t> source_;             // [E], student tokens projected onto the support
  std::vector<T> score_, support_gradient_, support_sum_, source_p_;
  std::vector<T> student_log_, student_p_, teacher_log_, teacher_p_;  // [K]
  std::vector<double> projected_, projected_gradient_;                // [K]
  std::vector<T> cached_log_, row_log_;                               // [rows, K]
  std::vector<RankedColumn> ranked_, ranked_teacher_;
};

}  // namespace xrun
