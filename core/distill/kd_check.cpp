// Ids are checked on the CPU, where the batch plan makes them.

#include "core/distill/kd_check.h"

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/distill/support_set.h"
#include "core/model/ops/op.h"

namespace xrun {

namespace {

// Recipes reach these checks through one function, whose name begins every message.
constexpr const char* kKd = "xrun.kd";

void check_row_ids(const at::Tensor& ids, int64_t rows, int64_t bound, const std::string& name) {
  check_type(kKd, name.c_str(), ids, at::kLong, ids.device());
  check_sizes(kKd, name.c_str(), ids, {rows}, ids.device());
  XRUN_CHECK(bound > 0 || rows == 0, "{}: {} has {} ids, but there is nothing that they can name",
             kKd, name, rows);
  const at::Tensor host = ids.cpu().contiguous();
  const int64_t* const id = host.const_data_ptr<int64_t>();
  for (int64_t r = 0; r < rows; ++r) {
    XRUN_CHECK(id[r] >= 0 && id[r] < bound, "{}: {}[{}] is {}, wanted 0 to {}", kKd, name, r, id[r],
               bound - 1);
  }
}

}  // namespace

int64_t kd_columns(const KdSide& side) {
  return side.columns > 0 ? side.columns : side.weight.size(0);
}

void check_kd_side(const KdSide& side, const char* name, bool chain) {
  const auto field = [&](const char* part) { return fmt::format("{}.{}", name, part); };
  XRUN_CHECK(side.weight.defined() && side.hidden.defined() && side.index.defined() &&
                 side.chunk.defined(),
             "{}: {} needs hidden, weight, index and chunk", kKd, name);
  const c10::Device device = side.weight.device();
  check_floating(kKd, field("weight").c_str(), side.weight, device);
  check_floating(kKd, field("hidden").c_str(), side.hidden, device);
  XRUN_CHECK(side.weight.dim() == 2 && side.weight.numel() > 0 && side.hidden.dim() == 2 &&
                 side.hidden.size(1) == side.weight.size(1),
             "{}: {}.hidden is [{}], {}.weight is [{}]; wanted [N, D] and [V, D]", kKd, name,
             fmt::join(side.hidden.sizes(), ", "), name, fmt::join(side.weight.sizes(), ", "));
  XRUN_CHECK(side.columns >= 0 && side.columns <= side.weight.size(0),
             "{}: {}.columns is {}, wanted 1 to the {} rows of its weight, or 0 for all of them",
             kKd, name, side.columns, side.weight.size(0));
  XRUN_CHECK(side.index.dim() == 1, "{}: {}.index is [{}], wanted a list", kKd, name,
             fmt::join(side.index.sizes(), ", "));
  const int64_t rows = side.index.size(0);
  check_row_ids(side.index, rows, side.hidden.size(0), field("index"));
  check_sizes(kKd, field("chunk").c_str(), side.chunk, {rows}, side.chunk.device());
  XRUN_CHECK(side.target.defined() || !chain,
             "{}: {}.target is missing; a chain multiplies the probabilities of the text's tokens",
             kKd, name);
  if (side.target.defined()) {
    check_row_ids(side.target, rows, kd_columns(side), field("target"));
  }
}

void check_cached_loss(const KdOptions& options, int64_t k, int64_t columns) {
  XRUN_CHECK(options.loss == KdLoss::kProjected || options.loss == KdLoss::kTopK,
             "{}: the loss \"{}\" needs the teacher's whole distribution; cached columns serve "
             "p-kl and topk, so cache hidden states instead",
             kKd, kd_loss_name(options.loss));
  XRUN_CHECK(std::min(options.top_k, columns) <= k,
             "{}: topk is {}, but {} columns are cached; set topk = {} or cache more", kKd,
             options.top_k, k, k);
}

void check_teacher_columns(const TeacherColumns& teacher, int64_t columns,
                           const KdOptions& options) {
  check_type(kKd, "teacher.id", teacher.id, at::kLong);
  XRUN_CHECK(teacher.id.dim() == 2, "{}: teacher.id is [{}], wanted [R, k]", kKd,
             fmt::join(teacher.id.sizes(), ", "));
  const int64_t k = teacher.id.size(1);
  check_type(kKd, "teacher.logprob", teacher.logprob, at::kFloat);
  check_sizes(kKd, "teacher.logprob", teacher.logprob, teacher.id.sizes());
  XRUN_CHECK(k >= 1 && k <= columns, "{}: {} cached columns, wanted 1 to the vocabulary of {}", kKd,
             k, columns);
  check_cached_loss(options, k, columns);
  const at::Tensor ids = teacher.id.contiguous();
  const int64_t* const id = ids.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    XRUN_CHECK(id[i] >= 0 && id[i] < columns, "{}: teacher.id[{}, {}] is {}, wanted 0 to {}", kKd,
               i / k, i % k, id[i], columns - 1);
  }
}

void check_kd_vocabularies(const KdOptions& options, int64_t student_columns,
                           int64_t teacher_columns, const VocabularyMap* map) {
  const SupportForm form = support_form(options);
  const char* const loss = kd_loss_name(options.loss);
  if (form.needs_one_vocabulary()) {
    XRUN_CHECK(student_columns == teacher_columns,
               "{}: the loss \"{}\" compares one vocabulary, but the student has {} tokens and the "
               "teacher {}; use p-kl, gold, h-kl or hybrid, which read a projection",
               kKd, loss, student_columns, teacher_columns);
  }
  if (!form.needs_map()) {
    XRUN_CHECK(map == nullptr, "{}: the loss \"{}\" reads no projection, but one is given", kKd,
               loss);
    return;
  }
  XRUN_CHECK(map != nullptr, "{}: the loss \"{}\" needs a projection", kKd, loss);
  XRUN_CHECK(map->student_vocab == student_columns && map->teacher_vocab == teacher_columns,
             "{}: the projection maps {} tokens to {}, but the student has {} and the teacher {}",
             kKd, map->student_vocab, map->teacher_vocab, student_columns, teacher_columns);
  XRUN_CHECK(form.projected ? !map->student.empty() : !map->common_student.empty(),
             "{}: the projection has no {}, so the loss \"{}\" would compare nothing", kKd,
             form.projected ? "entries" : "common tokens", loss);
}

std::vector<int64_t> first_rows(const at::Tensor& chunk, int64_t chunks, const char* name) {
  const std::string field = fmt::format("{}.chunk", name);
  XRUN_CHECK(chunks >= 0, "{}: chunks is {}, wanted 0 or more", kKd, chunks);
  check_row_ids(chunk, chunk.size(0), chunks, field);
  const at::Tensor host = chunk.cpu().contiguous();
  const int64_t* const id = host.const_data_ptr<int64_t>();
  std::vector<int64_t> first;
  const auto check_next = [&](int64_t chunk) {
    XRUN_CHECK(chunk == std::ssize(first),
               "{}: chunk {} has no row of the {}; leave out chunks that have one side only", kKd,
               first.size(), name);
  };
  for (int64_t r = 0; r < host.size(0); ++r) {
    XRUN_CHECK(r == 0 || id[r] >= id[r - 1],
               "{}: {}[{}] is {} after {}; the rows of a chunk must be neighbours, in rising order",
               kKd, field, r, id[r], id[r - 1]);
    if (r > 0 && id[r] == id[r - 1]) continue;
    check_next(id[r]);
    first.push_back(r);
  }
  check_next(chunks);
  first.push_back(host.size(0));
  return first;
}

}  // namespace xrun
