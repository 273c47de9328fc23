// The two products of a block run over all of its rows. Its chunks are then computed one per thread
// and independently, so that a loss has the same bits whatever other chunks the block has.

#include "core/distill/kd_blocks.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "core/model/ops/head_block.h"
#include "core/model/ops/logit_rows.h"
#include "core/model/ops/matrix_product.h"

namespace xrun {

namespace {

at::Tensor gathered(const at::Tensor& hidden, const at::Tensor& index, at::ScalarType type) {
  return hidden.index_select(0, index.to(hidden.device())).to(type).contiguous();
}

const int64_t* row_data(const at::Tensor& ids, int64_t row) {
  return ids.defined() ? ids.const_data_ptr<int64_t>() + row : nullptr;
}

}  // namespace

at::Tensor block_matrix(int64_t rows, int64_t columns, at::ScalarType type) {
  if (type == at::kFloat) return scratch_matrix(rows, columns);
  return at::empty({rows, columns}, at::TensorOptions(type));
}

template <class T>
KdBlocks<T>::KdBlocks(const KdCall& call, const at::Tensor& hidden, const at::Tensor& weight)
    : call_(call), type_(c10::CppTypeToScalarType<T>::value) {
  x_ = gathered(hidden, call.student_index, type_);
  w_ = weight.to(type_).contiguous();
  for (const KdSide& teacher : call.teachers) {
    teacher_x_.push_back(gathered(teacher.hidden, teacher.index, type_));
    const at::Tensor weight = teacher.weight.to(type_).contiguous();
    // The teachers may differ in padding rows, and a mean needs equal shapes.
    const bool several = call.teachers.size() > 1;
    teacher_w_.push_back(several ? weight.narrow(0, 0, call.teacher_columns) : weight);
  }
  workers_.resize(static_cast<size_t>(at::get_num_threads()));
}

template <class T>
int64_t KdBlocks<T>::saved_blocks() const {
  // As many rows as MicroBatch::take_head_mb reserves.
  const int64_t wide = sizeof(T) / sizeof(float);
  const int64_t most = head_rows_within(call_.options.head_mb / wide, x_.size(0), w_.size(0));
  int64_t count = 0;
  while (count < std::ssize(call_.blocks) && call_.blocks[count].student_end <= most) ++count;
  return count;
}

// The mean of logits is the normalised geometric mean of the distributions.
template <class T>
at::Tensor KdBlocks<T>::teacher_logits(const KdBlock& block) const {
  at::Tensor mean;
  const int64_t n = block.teacher_end - block.teacher;
  for (size_t i = 0; i < teacher_x_.size(); ++i) {
    const at::Tensor z = block_matrix(n, teacher_w_[i].size(0), type_);
    logits_into(z, teacher_x_[i].narrow(0, block.teacher, n), teacher_w_[i]);
    if (mean.defined()) {
      mean.add_(z);
    } else {
      mean = z;
    }
  }
  if (teacher_x_.size() > 1) mean.div_(static_cast<double>(teacher_x_.size()));
  return mean;
}

template <class T>
void KdBlocks<T>::multiply(const KdBlock& block, const at::Tensor& z) const {
  logits_into(z, x_.narrow(0, block.student, z.size(0)), w_);
}

template <class T>
ChunkLoss<T>& KdBlocks<T>::worker() {
  std::unique_ptr<ChunkLoss<T>>& own = workers_[static_cast<size_t>(at::get_thread_num())];
  if (!own) own = std::make_unique<ChunkLoss<T>>(call_.options, call_.map.get());
  return *own;
}

template <class T>
void KdBlocks<T>::compare(const KdBlock& block, const at::Tensor& z, T* losses, bool gradient) {
  const at::Tensor teacher_z = teacher_logits(block);
  const int64_t count = block.chunk_end - block.chunk;
  // A chunk is at least one row of a vocabulary on each side: work enough for a thread.
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    ChunkLoss<T>& own = worker();
    for (int64_t c = block.chunk + begin; c < block.chunk + end; ++c) {
      losses[c] = static_cast<T>(chunk_loss(own, c, block, z, teacher_z, gradient));
    }
  });
}

template <class T>
ChunkLogits<T> KdBlocks<T>::teacher_chunk(int64_t c, const KdBlock& block,
                                          const at::Tensor& logits) const {
  const int64_t t = call_.teacher_first[c], width = logits.size(1);
  return {logits.mutable_data_ptr<T>() + (t - block.teacher) * width,
          call_.teacher_first[c + 1] - t, width, call_.teacher_columns,
          row_data(call_.teachers.front().target, t)};
}

template <class T>
double KdBlocks<T>::chunk_loss(ChunkLoss<T>& loss, int64_t c, const KdBlock& block,
                               const at::Tensor& z, const at::Tensor& teacher_z,
                               bool gradient) const {
  const int64_t s = call_.student_first[c];
  const ChunkLogits<T> student = {z.mutable_data_ptr<T>() + (s - block.student) * z.size(1),
                                  call_.student_first[c + 1] - s, z.size(1), call_.student_columns,
                                  row_data(call_.student_target, s)};
  if (call_.cached) return loss(student, cached_rows(call_, c), gradient);
  return loss(student, teacher_chunk(c, block, teacher_z), gradient);
}

template class KdBlocks<float>;
template class KdBlocks<double>;

}  // namespace xrun
