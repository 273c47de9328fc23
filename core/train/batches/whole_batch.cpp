// A rank's message is, for each of its micro-batches: the number of tensors, the tensors.

#include "core/train/batches/whole_batch.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/dist/agreement.h"
#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
#include "core/model/ops/device.h"
#include "core/train/batches/batch.h"

namespace xrun {

std::vector<std::vector<at::Tensor>> score_micros(
    const Batch& batch, std::string_view label,
    const std::function<std::vector<at::Tensor>(MicroBatch& micro)>& score) {
  const auto& micros = batch.micros();
  Ranks* const ranks = batch.info().ranks;
  std::vector<std::vector<at::Tensor>> values(micros.size());
  if (ranks == nullptr) {
    for (size_t m = 0; m < micros.size(); ++m) values[m] = score(*micros[m]);
    return values;
  }
  const auto size = static_cast<size_t>(ranks->size());
  const std::vector<std::string> messages = gather_results(ranks, label, [&] {
    MessageWriter own;
    // Rank r scores micro-batches r, r + n, r + 2n, ...; the readers below undo this deal.
    for (auto m = static_cast<size_t>(ranks->rank()); m < micros.size(); m += size) {
      const std::vector<at::Tensor> made = score(*micros[m]);
      own.int64(std::ssize(made));
      for (const at::Tensor& one : made) own.tensor(one);
    }
    return own.take();
  });
  for (size_t rank = 0; rank < size; ++rank) {
    MessageReader in(messages[rank]);
    for (size_t m = rank; m < micros.size(); m += size) {
      // Every rank reads every message, its own too: all get the same bits, on the batch's device.
      for (int64_t count = in.int64(); count > 0; --count) {
        const at::Tensor one = in.tensor();
        values[m].push_back(one.defined() ? on_device(one, batch.info().device) : one);
      }
    }
  }
  return values;
}

std::vector<at::Tensor> score_micros_once(
    const Batch& batch, std::string_view label,
    const std::function<at::Tensor(MicroBatch& micro)>& score) {
  std::vector<at::Tensor> values;
  for (auto& one : score_micros(batch, label, [&](MicroBatch& micro) {
         return std::vector<at::Tensor>{score(micro)};
       })) {
    values.push_back(std::move(one.front()));
  }
  return values;
}

at::Tensor mean_over_ranks(Ranks& ranks, const at::Tensor& x) {
  const std::string own = MessageWriter().tensor(x).take();
  const std::vector<std::string> all = ranks.gather("run:mean", own);
  // With equal bits on all ranks the value is its own mean; a sum would round it.
  if (std::all_of(all.begin(), all.end(), [&](const std::string& one) { return one == own; })) {
    return x;
  }
  // In fp64 and in rank order, so that all ranks round alike.
  at::Tensor sum;
  for (const std::string& one : all) {
    const at::Tensor value = MessageReader(one).tensor().to(at::kDouble);
    XRUN_CHECK(!sum.defined() || sum.sizes() == value.sizes(),
               "run:mean: the tensor has another shape on another rank");
    sum = sum.defined() ? sum.add(value) : value;
  }
  return on_device(sum.div(static_cast<double>(ranks.size())).to(x.scalar_type()), x.device());
}

}  // namespace xrun
