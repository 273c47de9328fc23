// The student's hidden states come from the forward that serves the objective's log-probs too. The
// teacher reads the same rows or the companion's. Rows are numbered by chunk, so that kd_loss sees
// one run of rows per chunk on each side.

#include "core/distill/kd_view.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/distill/kd.h"
#include "core/distill/kd_check.h"
#include "core/distill/labelled_kd.h"
#include "core/distill/support_set.h"
#include "core/model/flops.h"
#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/batches/whole_batch.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"

namespace xrun {
namespace {

// Returns true if the loss needs one vocabulary. It then compares the tokens that both have, since
// one of the two vocabularies may extend the other.
bool compares_common(const MicroBatch& micro, const KdPair& pair) {
  return support_form(pair.options).needs_one_vocabulary() && pair.teacher.reads_tokens_of(micro);
}

// The loss rows of a micro-batch that are in a chunk.
struct ChunkRows {
  std::vector<int64_t> row, chunk;
  int64_t chunks = 0;
  bool by_row = false;  // every loss row is a chunk
};

ChunkRows chunk_rows(const PackedBatch& pack, bool aligned) {
  ChunkRows rows;
  // Chunks of another teacher's alignment say nothing about the batch's own tokens.
  rows.by_row = !aligned && (pack.chunk.empty() || pack.companion != nullptr);
  const Grouping chunks = group_by(pack.chunk);
  rows.chunks = rows.by_row ? pack.rows.size() : chunks.count();
  for (int64_t r = 0; r < pack.rows.size(); ++r) {
    const int64_t chunk = rows.by_row ? r : chunks.unit[static_cast<size_t>(r)];
    if (chunk < 0) continue;
    rows.row.push_back(r);
    rows.chunk.push_back(chunk);
  }
  return rows;
}

// Returns how many columns of the student's vocabulary the loss reads; the embedding may have more.
int64_t student_columns(const MicroBatch& micro, const KdPair& pair) {
  const auto& tokenizer = micro.info().tokenizer.tokenizer;
  const int64_t own = tokenizer != nullptr ? tokenizer->vocab_size() : pair.student.vocab();
  return compares_common(micro, pair) ? std::min(own, pair.teacher.common_columns(micro)) : own;
}

// Returns how many columns of the teacher's vocabulary the loss reads.
int64_t teacher_columns(const MicroBatch& micro, const KdPair& pair) {
  return compares_common(micro, pair) ? pair.teacher.common_columns(micro) : pair.teacher.columns();
}

KdSide student_side(MicroBatch& micro, const KdPair& pair, const ChunkRows& rows) {
  Model& model = pair.student.model();
  const at::Tensor row = on_device(int64_tensor(rows.row), micro.device());
  KdSide side;
  side.hidden = micro.hidden(model);
  side.weight = model.head_weight();
  side.index = micro.computed(model).row_hidden.index_select(0, row);
  side.chunk = on_device(int64_tensor(rows.chunk), micro.device());
  side.target = micro.row_target().index_select(0, row);
  side.columns = student_columns(micro, pair);
  return side;
}

KdSide teacher_side(MicroBatch& micro, FrozenModel& teacher, const CompanionPack& tokens,
                    int64_t columns) {
  KdSide side;
  side.hidden = teacher.row_hidden(micro, tokens);
  side.weight = teacher.head_weight().detach();
  side.index = at::arange(side.hidden.size(0), at::dtype(at::kLong).device(side.hidden.device()));
  side.chunk = on_device(int64_tensor(tokens.chunk), micro.device());
  side.target = on_device(int64_tensor(tokens.target), micro.device());
  side.columns = columns;
  return side;
}

TeacherColumns cached_columns(MicroBatch& micro, const KdPair& pair, const CompanionPack& tokens) {
  const HeadResult head = pair.teacher.row_columns(micro, tokens,
                                                   {.k = pair.teacher.options().top_k,
                                                    .temperature = pair.options.temperature,
                                                    .columns = teacher_columns(micro, pair)});
  return {head.top_id.cpu(), head.top_logprob.cpu(), int64_tensor(tokens.chunk)};
}

// Returns half the squared difference of the log-probs, for a dry run, which has nothing else: the
// loss has the right shape and a gradient. With aligned data the teacher has no log-probs of the
// batch's tokens. Throws what a step would throw.
at::Tensor stand_in_loss(const View& view, const KdPair& pair, bool aligned, bool by_row) {
  const int64_t columns = teacher_columns(view.micro(), pair);
  if (pair.teacher.options().cache == FrozenCache::kTopColumns) {
    check_cached_loss(pair.options, std::min(pair.teacher.options().top_k, columns), columns);
  }
  check_kd_vocabularies(pair.options, student_columns(view.micro(), pair), columns, pair.map.get());
  at::Tensor gap = pair.student.token_logprob(view);
  if (!aligned) gap = gap.sub(pair.teacher.token_logprob(view));
  const at::Tensor loss = gap.square().mul(0.5);
  return by_row ? loss : view.chunk_sum(loss);
}

// Equal numbers of columns do not make equal tokens.
void check_one_vocabulary(const MicroBatch& micro, const KdPair& pair) {
  if (!support_form(pair.options).needs_one_vocabulary()) return;
  XRUN_CHECK(
      pair.teacher.reads_tokens_of(micro),
      "xrun.kd: the loss \"{}\" compares one vocabulary, but the vocabulary of {} differs from "
      "that of {}, whose tokens this batch has; use p-kl, gold, h-kl or hybrid, which read a "
      "projection, or uld",
      kd_loss_name(pair.options.loss), pair.teacher.dir().string(), micro.info().tokenizer.dir);
}

// Averaging logits takes one vocabulary and all of its columns.
void check_others(const KdPair& pair) {
  for (const auto& other : pair.others) {
    XRUN_CHECK(
        other->fingerprint() == pair.teacher.fingerprint(),
        "xrun.kd: the logits of {} and {} cannot be averaged, since their vocabularies differ; "
        "call xrun.kd for each of them and add the losses",
        pair.teacher.dir().string(), other->dir().string());
    for (const FrozenModel* const one : {&pair.teacher, std::as_const(other).get()}) {
      XRUN_CHECK(one->options().cache != FrozenCache::kTopColumns,
                 "xrun.kd: averaged logits need the whole distribution, but {} has cached columns; "
                 "open it with cache = \"hidden\"",
                 one->dir().string());
    }
  }
}

// Returns the loss rows that are in no chunk, rising.
std::vector<int64_t> unchunked_rows(const ChunkRows& rows, int64_t row_count) {
  std::vector<int64_t> rest;
  auto next = rows.row.begin();
  for (int64_t r = 0; r < row_count; ++r) {
    if (next != rows.row.end() && *next == r) {
      ++next;
    } else {
      rest.push_back(r);
    }
  }
  return rest;
}

// Returns true if one product with the head may serve the loss and the log-probs of the trained
// tokens.
bool shares_head(MicroBatch& micro, Model& model, const KdSide& student) {
  return student.weight.is_cpu() && student.weight.scalar_type() != at::kDouble &&
         micro.takes_token_logprob(model);
}

// Calls loss(unchunked rows) -> LabelledKd, sets the micro-batch's log-probs from the result and
// returns its loss.
template <class Loss>
at::Tensor loss_with_logprobs(MicroBatch& micro, Model& model, const ChunkRows& rows,
                              const KdSide& student, const Loss& loss) {
  const std::vector<int64_t> rest = unchunked_rows(rows, micro.row_count());
  const at::Tensor row = int64_tensor(rest);
  const LabelledKd both = loss(UnchunkedRows{micro.computed(model).row_hidden.index_select(0, row),
                                             micro.row_target().index_select(0, row)});
  at::Tensor logprob = both.logprob;
  if (!rest.empty()) {  // back into the order of the loss rows
    std::vector<int64_t> order = rows.row;
    order.insert(order.end(), rest.begin(), rest.end());
    logprob = logprob.index_select(0, at::argsort(int64_tensor(order)));
  }
  micro.set_token_logprob(model, logprob);
  // The forward's product, and one more for each gradient.
  const double products = at::GradMode::is_enabled()
                              ? 1 + student.hidden.requires_grad() + student.weight.requires_grad()
                              : 1;
  count_flops(products * head_flops(model.config(), micro.row_count()));
  return both.loss;
}

// Returns the share of head_mb for the loss, and reserves the rest for the log-probs if they come
// from the same product. Gradients of the loss go first, then logits.
int64_t loss_head_mb(MicroBatch& micro, const KdOptions& options, const KdSide& student,
                     bool shares) {
  const int64_t all = options.head_mb, vocab = student.weight.size(0);
  const bool no_rows = shares && keeps_support(options);
  const int64_t own = micro.take_head_mb(all, no_rows ? 0 : student.index.size(0), vocab);
  if (shares) micro.take_head_mb(all, micro.row_count(), vocab);
  return own;
}

struct ViewLoss {
  at::Tensor loss;
  bool by_row;  // [R] of the view, else [C]
};

ViewLoss view_loss(const View& view, const KdPair& pair) {
  check_others(pair);
  MicroBatch& micro = view.micro();
  const CompanionPack tokens = pair.teacher.tokens_of(micro);
  check_one_vocabulary(micro, pair);
  const bool aligned = !tokens.fingerprint.empty();
  const ChunkRows rows = chunk_rows(micro.pack(), aligned);
  if (!rows.by_row) view.check_whole("xrun.kd");
  if (pair.student.is_replaced()) {
    return {stand_in_loss(view, pair, aligned, rows.by_row), rows.by_row};
  }
  const KdSide student = student_side(micro, pair, rows);
  KdOptions options = pair.options;
  Model& model = pair.student.model();
  const bool shares = shares_head(micro, model, student);
  const bool from_cache = pair.teacher.options().cache == FrozenCache::kTopColumns;
  // Only a loss with gradient keeps rows until the backward.
  if (at::GradMode::is_enabled()) {
    options.head_mb = loss_head_mb(micro, pair.options, student, shares);
  }
  const auto loss_of = [&](const auto& teacher) {
    if (!shares) return kd_loss(student, teacher, rows.chunks, options, pair.map);
    return loss_with_logprobs(micro, model, rows, student, [&](const UnchunkedRows& rest) {
      return labelled_kd(student, rest, teacher, rows.chunks, options, pair.map);
    });
  };
  at::Tensor loss;
  if (from_cache) {
    loss = loss_of(cached_columns(micro, pair, tokens));
  } else {
    const int64_t columns = teacher_columns(micro, pair);
    std::vector<KdSide> teachers = {teacher_side(micro, pair.teacher, tokens, columns)};
    for (const auto& other : pair.others) {
      teachers.push_back(teacher_side(micro, *other, tokens, columns));
    }
    loss = loss_of(teachers);
  }
  return {rows.by_row ? view.select_rows(loss) : loss, rows.by_row};
}

}  // namespace

at::Tensor kd_loss_of(const View& view, const KdPair& pair) { return view_loss(view, pair).loss; }

at::Tensor kd_loss_of(Batch& batch, const KdPair& pair) {
  const at::NoGradGuard no_grad;
  const auto results = score_micros(batch, "losses of distillation", [&](MicroBatch& micro) {
    const ViewLoss part = view_loss(micro.all(), pair);
    micro.free_hidden();  // the states of a whole batch may not fit into memory
    return std::vector<at::Tensor>{part.loss, at::scalar_tensor(part.by_row, at::kBool)};
  });
  std::vector<at::Tensor> parts;
  bool by_row = true;
  for (const std::vector<at::Tensor>& result : results) {
    parts.push_back(result[0]);
    by_row = by_row && result[1].item().toBool();
  }
  if (by_row) return batch.in_batch_order(parts, /*by_row=*/true);
  return at::cat(parts);
}

ChunkColumns chunk_columns(const View& view, FrozenModel& teacher, int64_t k, double temperature) {
  MicroBatch& micro = view.micro();
  const CompanionPack tokens = teacher.tokens_of(micro);
  view.check_whole("xrun.kd");
  const HeadResult head = teacher.row_columns(micro, tokens, {.k = k, .temperature = temperature});
  return {head.logprob, head.lse, head.top_logprob, head.top_id,
          on_device(int64_tensor(tokens.chunk), micro.device())};
}

}  // namespace xrun
