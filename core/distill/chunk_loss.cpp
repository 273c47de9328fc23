// With P, Q the chunk's means of student and teacher, S the support, tau the temperature:
//   p-kl            A = M^T P on S, divided by its sum; L = mean of the teacher's log-softmax on S;
//                   tau^2 sum e^L (L - log A)
//   gold, h-kl      tau^2 (sum_(i,j common) Q_j (log Q_j - log P_i) + sum_r |P_(r) - Q_(r)|), where
//                   P_(r) is the r-th largest probability of the tokens in no pair
//   uld             sum_r |P_(r) - Q_(r)| over all tokens
//   hybrid          w JSD_beta(P, Q on common tokens) + (1 - w) sum_r |P_(r) - Q_(r)| over the
//                   others, w = common tokens / Vt
//   topk, full      tau^2 KL of Q and P, each divided by its sum on S
// Reverse exchanges the two distributions of a KL.

#include "core/distill/chunk_loss.h"

#include <algorithm>
#include <cmath>

namespace xrun {

namespace {

constexpr double kProjectedEps = 1e-10;        // X-Token adds it to a projected distribution
constexpr double kLeastJsdProbability = 1e-8;  // TRL clamps both sides of the JSD to it

// Normalises logs [K], so that their probabilities sum to 1, and writes those to p.
template <class T>
void normalise_logs(std::vector<T>& logs, std::vector<T>& p) {
  const auto n = static_cast<int64_t>(logs.size());
  p.resize(logs.size());
  const RowSoftmax row = softmax_row(logs.data(), n, T(1), p.data());
  const T factor = static_cast<T>(1 / row.sum);
  for (T& x : p) x *= factor;
  for (T& x : logs) x = row_logprob(x, row, T(1));
}

int sign_of(double x) { return (x > 0) - (x < 0); }

// Returns the sum over the listed columns (null: all n) that are not ranked, at least 0: rounding
// may leave less.
template <class T>
double sum_beyond(const T* value, const int32_t* columns, int64_t n,
                  const std::vector<RankedColumn>& ranked) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += value[columns == nullptr ? i : columns[i]];
  for (const RankedColumn& one : ranked) sum -= value[one.column];
  return std::max(sum, 0.0);
}

}  // namespace

template <class T>
ChunkLoss<T>::ChunkLoss(const KdOptions& options, const VocabularyMap* map)
    : options_(options),
      form_(support_form(options)),
      map_(map),
      factor_(form_.squared ? options.temperature * options.temperature : 1) {}

template <class T>
void ChunkLoss<T>::clear_gradients(int64_t columns) {
  const auto n = static_cast<size_t>(columns);
  // A KL on tokens has a gradient of log P; projections, JSD and sorted differences have one of P.
  // A buffer that the loss does not fill stays empty and costs the backward nothing.
  const bool of_log =
      form_.columns != SupportColumns::kNone && !form_.projected && !form_.jensen_shannon;
  const bool of_p = form_.projected || form_.jensen_shannon || form_.rest != SortedRest::kNone;
  gradient_.assign(of_p ? n : 0, T(0));
  log_gradient_.assign(of_log ? n : 0, T(0));
}

template <class T>
void ChunkLoss<T>::backward(Mean& student) {
  const bool scale_free = form_.needs_one_vocabulary();  // P is normalised after the mean
  student.backward(gradient_.empty() ? nullptr : gradient_.data(),
                   log_gradient_.empty() ? nullptr : log_gradient_.data(), scale_free);
}

template <class T>
double ChunkLoss<T>::operator()(const ChunkLogits<T>& student, const ChunkLogits<T>& teacher,
                                bool gradient) {
  Mean p(student, options_.temperature, form_.student, !form_.divides_by_sum(), student_buffers_);
  Mean q(teacher, options_.temperature, form_.teacher, !form_.divides_by_sum(), teacher_buffers_);
  clear_gradients(student.columns);
  double loss = 0;
  if (form_.divides_by_sum()) {
    choose_columns(q);
    loss = compare_columns(p, q.rows(),
                           [&](int64_t r, int64_t i) { return q.row_log(r, columns_[i]); });
  } else if (form_.jensen_shannon) {
    loss = common_jensen_shannon(p, q);
  } else if (form_.columns == SupportColumns::kCommon) {
    loss = common_kl(p, q);
  }
  if (form_.rest != SortedRest::kNone) loss += sorted_rest(p, q);
  if (gradient) backward(p);
  return loss;
}

template <class T>
double ChunkLoss<T>::operator()(const ChunkLogits<T>& student, const CachedRows& teacher,
                                bool gradient) {
  Mean p(student, options_.temperature, form_.student, !form_.divides_by_sum(), student_buffers_);
  clear_gradients(student.columns);
  choose_columns(teacher);
  const auto K = static_cast<int64_t>(columns_.size());
  const double loss = compare_columns(p, teacher.rows,
                                      [&](int64_t r, int64_t i) { return cached_log_[r * K + i]; });
  if (gradient) backward(p);
  return loss;
}

template <class T>
double ChunkLoss<T>::operator()(int64_t student_rows, const SupportLogs& logs,
                                const CachedRows& teacher) {
  choose_columns(teacher);
  const auto K = std::ssize(columns_);
  fill_teacher_log(teacher.rows, [&](int64_t r, int64_t i) { return cached_log_[r * K + i]; });
  return compare_support(student_rows, logs);
}

template <class T>
double ChunkLoss<T>::operator()(int64_t student_rows, const SupportLogs& logs,
                                const ChunkLogits<T>& teacher) {
  Mean q(teacher, options_.temperature, form_.teacher, !form_.divides_by_sum(), teacher_buffers_);
  choose_columns(q);
  fill_teacher_log(q.rows(), [&](int64_t r, int64_t i) { return q.row_log(r, columns_[i]); });
  return compare_support(student_rows, logs);
}

// Rounds the student's means as MeanDistribution::log_at does, so that a loss has the same bits.
template <class T>
double ChunkLoss<T>::compare_support(int64_t student_rows, const SupportLogs& logs) {
  if (form_.projected) return compare_sources(student_rows, logs);
  const auto K = std::ssize(columns_);
  const int64_t n = of_first_row_alone() ? 1 : student_rows;
  row_log_.resize(static_cast<size_t>(n * K));
  for (int64_t r = 0; r < n; ++r) logs(r, columns_, row_log_.data() + r * K);
  student_log_.resize(columns_.size());
  for (int64_t i = 0; i < K; ++i) {
    double sum = 0;
    for (int64_t r = 0; r < n; ++r) sum += row_log_[r * K + i];
    student_log_[i] = static_cast<T>(sum / static_cast<double>(n));
  }
  const double loss = normalised_kl();
  const T scale = static_cast<T>(1 / options_.temperature), divisor = static_cast<T>(n);
  for (T& g : support_gradient_) g = scale * (g / divisor);
  return loss;
}

// projected_kl with the arithmetic mean, from the few student tokens that are projected onto the
// support: P = mean_r p_r, so h_r = p_r dL/dP / rows.
template <class T>
double ChunkLoss<T>::compare_sources(int64_t student_rows, const SupportLogs& logs) {
  const auto K = std::ssize(columns_);
  source_.clear();
  for (const int32_t column : columns_) {
    const auto first = map_->student.begin();
    source_.insert(source_.end(), first + map_->begin[column], first + map_->begin[column + 1]);
  }
  const auto E = std::ssize(source_);
  const T rows = static_cast<T>(student_rows);
  row_log_.resize(source_.size());
  source_p_.resize(static_cast<size_t>(student_rows * E));
  student_p_.assign(source_.size(), T(0));
  for (int64_t r = 0; r < student_rows; ++r) {
    T* const p = source_p_.data() + r * E;
    logs(r, source_, row_log_.data());
    if (E == 0) continue;  // nothing projects onto the support; `logs` read the labels
    const T most = static_cast<T>(std::exp(softmax_row(row_log_.data(), E, T(1), p).most));
    for (int64_t e = 0; e < E; ++e) {
      p[e] *= most;
      student_p_[e] += p[e] / rows;
    }
  }
  projected_.assign(columns_.size(), 0.0);
  const auto each_entry = [&](const auto& f) {  // f(i, e, weight), e within source_
    for (int64_t i = 0, e = 0; i < K; ++i) {
      for (int64_t m = map_->begin[columns_[i]]; m < map_->begin[columns_[i] + 1]; ++m, ++e) {
        f(i, e, map_->weight[m]);
      }
    }
  };
  each_entry([&](int64_t i, int64_t e, float weight) {
    projected_[i] += static_cast<double>(weight) * student_p_[e];
  });
  const double loss = compare_projection();
  support_gradient_.resize(source_p_.size());
  support_sum_.assign(static_cast<size_t>(student_rows), T(0));
  // dL/dP of an entry overwrites its probability, which is no longer needed.
  const T scale = static_cast<T>(1 / options_.temperature);
  each_entry([&](int64_t i, int64_t e, float weight) {
    student_p_[e] = scale * (static_cast<T>(weight * projected_gradient_[i]) / rows);
  });
  for (int64_t r = 0; r < student_rows; ++r) {
    double sum = 0;
    for (int64_t e = r * E; e < (r + 1) * E; ++e) {
      support_gradient_[e] = source_p_[e] * student_p_[e - r * E];
      sum += support_gradient_[e];
    }
    support_sum_[r] = static_cast<T>(sum);
  }
  return loss;
}

// A single row is ranked by its logits, as the head ranks its top k; several rows by their mean
// log-probability.
template <class T>
void ChunkLoss<T>::choose_columns(const Mean& teacher) {
  const int64_t V = teacher.columns();
  const int64_t k = form_.columns == SupportColumns::kAll ? V : options_.top_k;
  if (teacher.rows() == 1 || k >= V) {
    return top_columns(teacher.logits().z, V, k, ranked_, columns_);
  }
  score_.resize(static_cast<size_t>(V));
  for (int64_t v = 0; v < V; ++v) {
    double sum = 0;
    for (int64_t r = 0; r < teacher.rows(); ++r) sum += teacher.row_log(r, v);
    score_[v] = static_cast<T>(sum);
  }
  top_columns(score_.data(), V, k, ranked_, columns_);
}

// Fills columns_ and cached_log_. The support is the first top_k cached columns, which fall by mean
// log-probability.
template <class T>
void ChunkLoss<T>::choose_columns(const CachedRows& teacher) {
  const int64_t n = teacher.rows, k = teacher.k, K = std::min(k, options_.top_k);
  std::vector<std::pair<int32_t, int64_t>> columns;  // with its index in a row
  for (int64_t i = 0; i < K; ++i) columns.emplace_back(static_cast<int32_t>(teacher.id[i]), i);
  std::ranges::sort(columns);
  columns_.resize(static_cast<size_t>(K));
  cached_log_.resize(static_cast<size_t>(n * K));
  for (int64_t i = 0; i < K; ++i) {
    columns_[i] = columns[i].first;
    for (int64_t r = 0; r < n; ++r) {
      cached_log_[r * K + i] = static_cast<T>(teacher.logprob[r * k + columns[i].second]);
    }
  }
}

// Fills teacher_log_ [K] with the log of the teacher's mean on the columns; row_log(r, i) is row
// r's log-probability of column i.
template <class T>
template <class RowLog>
void ChunkLoss<T>::fill_teacher_log(int64_t rows, const RowLog& row_log) {
  const auto K = static_cast<int64_t>(columns_.size());
  teacher_log_.resize(columns_.size());
  const double n = static_cast<double>(rows);
  if (form_.normalised_by_token) {
    projected_.assign(columns_.size(), 0.0);  // sums over the rows
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < K; ++i) teacher_log_[i] = row_log(r, i);
      normalise_logs(teacher_log_, teacher_p_);
      for (int64_t i = 0; i < K; ++i) projected_[i] += teacher_log_[i];
    }
    for (int64_t i = 0; i < K; ++i) teacher_log_[i] = static_cast<T>(projected_[i] / n);
    return;
  }
  for (int64_t i = 0; i < K; ++i) {
    if (rows == 1 || form_.teacher == ChunkMean::kChain) {
      teacher_log_[i] = row_log(0, i);  // the later tokens of a chain are a factor, divided out
    } else if (form_.teacher == ChunkMean::kGeometric) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += row_log(r, i);
      teacher_log_[i] = static_cast<T>(sum / n);
    } else {
      // log mean exp, shifted by the largest term: exp of a log-prob of -100 is 0 in fp32.
      double most = row_log(0, i), sum = 0;
      for (int64_t r = 1; r < rows; ++r) most = std::max<double>(most, row_log(r, i));
      for (int64_t r = 0; r < rows; ++r) sum += std::exp(row_log(r, i) - most);
      teacher_log_[i] = static_cast<T>(most + std::log(sum / n));
    }
  }
  normalise_logs(teacher_log_, teacher_p_);
}

template <class T>
template <class RowLog>
double ChunkLoss<T>::compare_columns(Mean& student, int64_t teacher_rows, const RowLog& row_log) {
  fill_teacher_log(teacher_rows, row_log);
  if (form_.projected) return projected_kl(student);
  const auto K = static_cast<int64_t>(columns_.size());
  student_log_.resize(columns_.size());
  for (int64_t i = 0; i < K; ++i) student_log_[i] = static_cast<T>(student.log_at(columns_[i]));
  const double loss = normalised_kl();
  for (int64_t i = 0; i < K; ++i) log_gradient_[columns_[i]] = support_gradient_[i];
  return loss;
}

// Normalises student_log_ [K] and returns its KL with teacher_log_; support_gradient_ [K] gets the
// gradient of log P.
template <class T>
double ChunkLoss<T>::normalised_kl() {
  const auto K = static_cast<int64_t>(columns_.size());
  support_gradient_.resize(columns_.size());
  normalise_logs(student_log_, student_p_);
  double kl = 0;
  for (int64_t i = 0; i < K; ++i) {
    const double ahead = static_cast<double>(teacher_log_[i]) - student_log_[i];
    kl += options_.reverse ? -student_p_[i] * ahead : teacher_p_[i] * ahead;
  }
  for (int64_t i = 0; i < K; ++i) {
    const double p = student_p_[i], q = teacher_p_[i];
    // With both sides normalised on S: d KL(q, p) / d log p_i = p_i - q_i, and d KL(p, q) / d log
    // p_i = p_i (log p_i - log q_i - KL).
    const double behind = static_cast<double>(student_log_[i]) - teacher_log_[i];
    support_gradient_[i] = static_cast<T>(factor_ * (options_.reverse ? p * (behind - kl) : p - q));
  }
  return factor_ * kl;
}

template <class T>
double ChunkLoss<T>::projected_kl(Mean& student) {
  const auto K = static_cast<int64_t>(columns_.size());
  const T* const P = student.probabilities();
  projected_.assign(columns_.size(), 0.0);
  for (int64_t i = 0; i < K; ++i) {
    for (int64_t e = map_->begin[columns_[i]]; e < map_->begin[columns_[i] + 1]; ++e) {
      projected_[i] += static_cast<double>(map_->weight[e]) * P[map_->student[e]];
    }
  }
  const double loss = compare_projection();
  for (int64_t i = 0; i < K; ++i) {
    for (int64_t e = map_->begin[columns_[i]]; e < map_->begin[columns_[i] + 1]; ++e) {
      gradient_[map_->student[e]] += static_cast<T>(map_->weight[e] * projected_gradient_[i]);
    }
  }
  return loss;
}

// Returns the loss of projected_ [K], and fills projected_gradient_ [K] with its gradient.
template <class T>
double ChunkLoss<T>::compare_projection() {
  const auto K = static_cast<int64_t>(columns_.size());
  projected_gradient_.resize(columns_.size());
  double total = kProjectedEps;
  for (const double x : projected_) total += x;
  // A = projected / total. The eps makes both directions finite where nothing projects.
  double kl = 0, lift = 0;
  for (int64_t i = 0; i < K; ++i) {
    const double A = projected_[i] / total, log_a = std::log(A + kProjectedEps);
    const double L = teacher_log_[i], q = std::exp(L);
    kl += options_.reverse ? (A + kProjectedEps) * (log_a - L) : q * (L - log_a);
    projected_gradient_[i] = options_.reverse ? log_a - L + 1 : -q / (A + kProjectedEps);
    // By the quotient rule of A_i = x_i / sum x: dL/dx_i = (dL/dA_i - sum_j A_j dL/dA_j) / sum x.
    lift += projected_gradient_[i] * A;
  }
  for (int64_t i = 0; i < K; ++i) {
    projected_gradient_[i] = factor_ * (projected_gradient_[i] - lift) / total;
  }
  return factor_ * kl;
}

template <class T>
double ChunkLoss<T>::common_kl(Mean& student, Mean& teacher) {
  const T *const P = student.probabilities(), *const Q = teacher.probabilities();
  double kl = 0;
  for (size_t i = 0; i < map_->common_student.size(); ++i) {
    const int32_t s = map_->common_student[i], t = map_->common_teacher[i];
    const double ahead = teacher.log_at(t) - student.log_at(s);
    kl += options_.reverse ? -P[s] * ahead : Q[t] * ahead;
    log_gradient_[s] = static_cast<T>(factor_ * (options_.reverse ? P[s] * (1 - ahead) : -Q[t]));
  }
  return factor_ * kl;
}

// beta = 0 and beta = 1 are the limits divided by beta and 1 - beta, as in TRL.
template <class T>
double ChunkLoss<T>::common_jensen_shannon(Mean& student, Mean& teacher) {
  const T *const P = student.probabilities(), *const Q = teacher.probabilities();
  const double beta = options_.beta, pairs = static_cast<double>(map_->common_student.size());
  const double weight = factor_ * pairs / static_cast<double>(teacher.columns());
  double sum = 0;
  for (size_t i = 0; i < map_->common_student.size(); ++i) {
    const int32_t column = map_->common_student[i];
    const double p = std::max<double>(P[column], kLeastJsdProbability);
    const double q = std::max<double>(Q[map_->common_teacher[i]], kLeastJsdProbability);
    const double log_p = std::log(p), log_q = std::log(q);
    double d = 0;
    if (beta == 0) {
      sum += q * (log_q - log_p);
      d = -q / p;
    } else if (beta == 1) {
      sum += p * (log_p - log_q);
      d = log_p - log_q + 1;
    } else {
      const double log_m = std::log((1 - beta) * p + beta * q);
      sum += beta * q * (log_q - log_m) + (1 - beta) * p * (log_p - log_m);
      // The derivative through m cancels: beta q / m + (1 - beta) p / m = 1.
      d = (1 - beta) * (log_p - log_m);
    }
    if (P[column] >= kLeastJsdProbability) gradient_[column] += static_cast<T>(weight * d);
  }
  return weight * sum;
}

// Ranks beyond the shorter side meet zeros, so only that many columns of the longer side are
// sorted: with 50,000 columns against 2,000 this takes a twentieth of the time.
template <class T>
double ChunkLoss<T>::sorted_rest(Mean& student, Mean& teacher) {
  const bool all = form_.columns == SupportColumns::kNone;
  const int32_t* const student_columns = all ? nullptr : map_->rest_student.data();
  const int32_t* const teacher_columns = all ? nullptr : map_->rest_teacher.data();
  const int64_t n = all ? student.columns() : std::ssize(map_->rest_student);
  const int64_t m = all ? teacher.columns() : std::ssize(map_->rest_teacher);
  if (n == 0 || m == 0) return 0;
  const bool padded = form_.rest == SortedRest::kPadded;
  const int64_t k = padded ? std::min(n, m) : std::min({n, m, options_.top_k});
  const T *const P = student.probabilities(), *const Q = teacher.probabilities();
  rank_columns(P, student_columns, n, k, ranked_);
  rank_columns(Q, teacher_columns, m, k, ranked_teacher_);
  // TRL weights the rest by the share of the teacher's vocabulary that is not common.
  const double common = all ? 0 : static_cast<double>(map_->common_student.size());
  const double weight =
      factor_ * (form_.jensen_shannon ? 1 - common / static_cast<double>(teacher.columns()) : 1.0);
  double sum = 0;
  for (int64_t r = 0; r < k; ++r) {
    const double p = P[ranked_[r].column], q = Q[ranked_teacher_[r].column];
    // Ranks are constant where no two probabilities are equal, so the gradient goes to the token
    // that has the rank.
    sum += std::abs(p - q);
    gradient_[ranked_[r].column] += static_cast<T>(weight * sign_of(p - q));
  }
  if (padded && m > k) sum += sum_beyond(Q, teacher_columns, m, ranked_teacher_);
  if (padded && n > k) {
    sum += sum_beyond(P, student_columns, n, ranked_);
    // Adds all columns, then subtracts those with a partner: no list of the others is needed.
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = student_columns == nullptr ? i : student_columns[i];
      gradient_[v] += static_cast<T>(weight * sign_of(P[v]));
    }
    for (const RankedColumn& one : ranked_) {
      gradient_[one.column] -= static_cast<T>(weight * sign_of(P[one.column]));
    }
  }
  return weight * sum;
}

template class ChunkLoss<float>;
template class ChunkLoss<double>;

}  // namespace xrun
