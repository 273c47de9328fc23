// The same pack with every token a target: the table of loss rows is all that the head looks at.
#include "core/train/token_scores.h"

#include <ATen/core/Tensor.h>

#include <limits>

#include "core/train/batch.h"

namespace xrun {

namespace {

PackedBatch with_every_target(const PackedBatch& pack) {
  PackedBatch all;
  for (int64_t s = 0; s < pack.segment_count(); ++s) {
    const auto at = static_cast<size_t>(s);
    const PackedBatch::Segment segment{pack.row_id[at],    pack.pair_id[at], pack.group_id[at],
                                       pack.sample_id[at], pack.source[at],  pack.side[at]};
    const std::vector<int32_t> ids = pack.segment_tokens(s).ids;
    all.append(segment, ids, std::vector<uint8_t>(ids.size(), 1));
  }
  return all;
}

}  // namespace

std::vector<float> token_scores(LogprobSource& source, const PackedBatch& pack, BatchInfo info) {
  std::vector<float> scores(pack.tokens.size(), std::numeric_limits<float>::quiet_NaN());
  if (pack.segment_count() == 0) return scores;
  Batch batch(std::move(info), {with_every_target(pack)});
  const at::Tensor values = source.token_logprob(batch).cpu().contiguous();
  const float* next = values.const_data_ptr<float>();
  for (const int64_t segment : batch.segment_order()) {
    const auto s = static_cast<size_t>(segment);
    for (int32_t t = pack.cu_seqlens[s] + 1; t < pack.cu_seqlens[s + 1]; ++t) {
      scores[static_cast<size_t>(t)] = *next++;
    }
  }
  batch.close();
  return scores;
}

}  // namespace xrun
