// mean_v = sum_r log p_r(v) over the rows of a chunk; its columns are the k largest. Chunks are
// taken in blocks of about 256 rows, as many as one product needs to reach its full rate.

#include "core/train/models/chunk_columns.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "core/model/ops/device.h"
#include "core/model/ops/head_block.h"
#include "core/model/ops/logit_rows.h"

namespace xrun {
namespace {

struct RowRange {
  int64_t first, end;
  int64_t size() const { return end - first; }
};

std::vector<RowRange> chunks_of_several_rows(const std::vector<int32_t>& chunk) {
  std::vector<RowRange> ranges;
  for (int64_t first = 0, end = 0; first < std::ssize(chunk); first = end) {
    while (end < std::ssize(chunk) && chunk[end] == chunk[first]) ++end;
    if (end - first > 1) ranges.push_back({first, end});
  }
  return ranges;
}

// The buffers of one thread.
struct TopBuffers {
  std::vector<RowSoftmax> rows;
  std::vector<float> exponentials, score;  // [V]
  std::vector<RankedColumn> ranked;
};

// Writes the columns [rows, k] of a chunk whose logits are z [rows, stride].
void write_columns(const float* z, int64_t rows, int64_t stride, int64_t columns, float scale,
                   int64_t k, TopBuffers& buffers, int64_t* id, float* logprob) {
  buffers.rows.resize(static_cast<size_t>(rows));
  buffers.exponentials.resize(static_cast<size_t>(columns));
  buffers.score.resize(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    buffers.rows[r] = softmax_row(z + r * stride, columns, scale, buffers.exponentials.data());
  }
  for (int64_t v = 0; v < columns; ++v) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r)
      sum += row_logprob(z[r * stride + v], buffers.rows[r], scale);
    buffers.score[v] = static_cast<float>(sum);
  }
  rank_columns(buffers.score.data(), nullptr, columns, k, buffers.ranked);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) {
      const int64_t v = buffers.ranked[i].column;
      id[r * k + i] = v;
      logprob[r * k + i] = row_logprob(z[r * stride + v], buffers.rows[r], scale);
    }
  }
}

}  // namespace

void share_chunk_columns(HeadResult& head, const at::Tensor& hidden, const at::Tensor& weight,
                         const std::vector<int32_t>& chunk, const HeadOptions& options) {
  const std::vector<RowRange> chunks = chunks_of_several_rows(chunk);
  if (chunks.empty() || options.top_k == 0) return;
  const c10::Device device = hidden.device();
  const int64_t k = options.top_k;
  const int64_t columns = options.columns > 0 ? options.columns : weight.size(0);
  const at::Tensor id = head.top_id.cpu().contiguous();
  const at::Tensor logprob = head.top_logprob.cpu().to(at::kFloat).contiguous();
  const at::Tensor x = hidden.to(at::kFloat).contiguous(), w = weight.to(at::kFloat).contiguous();
  const auto scale = static_cast<float>(1 / options.temperature);
  for (size_t begin = 0, end = 0; begin < chunks.size(); begin = end) {
    end = begin + 1;
    const int64_t first = chunks[begin].first;
    while (end < chunks.size() && chunks[end].end - first <= kHeadBlockRows) ++end;
    const int64_t rows = chunks[end - 1].end - first;
    const at::Tensor z = at::empty({rows, w.size(0)}, at::kFloat);
    logits_into(z, x.narrow(0, first, rows), w);
    at::parallel_for(0, static_cast<int64_t>(end - begin), 1, [&](int64_t from, int64_t to) {
      TopBuffers buffers;
      for (int64_t c = from; c < to; ++c) {
        const RowRange& range = chunks[begin + static_cast<size_t>(c)];
        write_columns(z.const_data_ptr<float>() + (range.first - first) * z.size(1), range.size(),
                      z.size(1), columns, scale, k, buffers,
                      id.mutable_data_ptr<int64_t>() + range.first * k,
                      logprob.mutable_data_ptr<float>() + range.first * k);
      }
    });
  }
  head.top_id = on_device(id, device);
  head.top_logprob = on_device(logprob, device);
}

}  // namespace xrun
