// Ids are copied to the CPU, which groups the blocks and computes the chunks.

#include "core/distill/kd_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/distill/kd_check.h"
#include "core/distill/support_set.h"
#include "core/model/ops/head_block.h"

namespace xrun {

namespace {

at::Tensor host_ids(const at::Tensor& ids) {
  return ids.defined() ? ids.cpu().contiguous() : at::Tensor();
}

bool reads_targets(const KdOptions& options) {
  const SupportForm form = support_form(options);
  return form.student == ChunkMean::kChain && !form.divides_by_sum();
}

// Throws unless the rows of a chunk have the same columns.
void check_chunk_columns(const at::Tensor& id, const std::vector<int64_t>& first) {
  const int64_t k = id.size(1);
  const int64_t* const ids = id.const_data_ptr<int64_t>();
  for (size_t c = 0; c + 1 < first.size(); ++c) {
    const int64_t* const own = ids + first[c] * k;
    for (int64_t r = first[c] + 1; r < first[c + 1]; ++r) {
      const auto [at, want] = std::mismatch(ids + r * k, ids + (r + 1) * k, own);
      XRUN_CHECK(at == ids + (r + 1) * k,
                 "xrun.kd: teacher.id[{}, {}] is {}, but row {} of the same chunk has {}; all "
                 "rows of a chunk must have the same columns",
                 r, at - ids - r * k, *at, first[c], *want);
    }
  }
}

// Returns a call with the student's side, which both kinds of teacher need.
c10::intrusive_ptr<KdCall> student_call(const KdSide& student, int64_t chunks,
                                        const KdOptions& options,
                                        std::shared_ptr<const VocabularyMap> map) {
  check_kd_options(options);
  check_kd_side(student, "student", reads_targets(options));
  auto call = c10::make_intrusive<KdCall>();
  call->options = options;
  call->map = std::move(map);
  call->student_columns = kd_columns(student);
  call->student_first = first_rows(student.chunk, chunks, "student");
  call->student_index = host_ids(student.index);
  call->student_chunk = host_ids(student.chunk);
  call->student_target = host_ids(student.target);
  return call;
}

}  // namespace

std::vector<KdBlock> make_blocks(const std::vector<int64_t>& student,
                                 const std::vector<int64_t>& teacher) {
  const int64_t chunks = std::ssize(student) - 1;
  std::vector<KdBlock> blocks;
  for (int64_t begin = 0; begin < chunks;) {
    int64_t end = begin + 1;
    while (end < chunks && student[end + 1] - student[begin] <= kHeadBlockRows &&
           teacher[end + 1] - teacher[begin] <= kHeadBlockRows) {
      ++end;
    }
    blocks.push_back({begin, end, student[begin], student[end], teacher[begin], teacher[end]});
    begin = end;
  }
  return blocks;
}

c10::intrusive_ptr<KdCall> online_call(const KdSide& student, const std::vector<KdSide>& teachers,
                                       int64_t chunks, const KdOptions& options,
                                       std::shared_ptr<const VocabularyMap> map) {
  const auto call = student_call(student, chunks, options, std::move(map));
  XRUN_CHECK(!teachers.empty(), "xrun.kd: there is no teacher");
  for (const KdSide& teacher : teachers) {
    check_kd_side(teacher, "teacher", reads_targets(options));
    const std::vector<int64_t> first = first_rows(teacher.chunk, chunks, "teacher");
    const int64_t columns = kd_columns(teacher);
    if (call->teachers.empty()) {
      call->teacher_first = first;
      call->teacher_columns = columns;
    }
    XRUN_CHECK(first == call->teacher_first && columns == call->teacher_columns,
               "xrun.kd: the teachers whose logits are averaged have {} and {} rows, {} and {} "
               "tokens; they must read the same tokens of one vocabulary",
               call->teacher_first.back(), first.back(), call->teacher_columns, columns);
    call->teachers.push_back({teacher.hidden.detach(), teacher.weight.detach(),
                              host_ids(teacher.index), host_ids(teacher.chunk),
                              host_ids(teacher.target), columns});
  }
  check_kd_vocabularies(options, call->student_columns, call->teacher_columns, call->map.get());
  call->blocks = make_blocks(call->student_first, call->teacher_first);
  return call;
}

c10::intrusive_ptr<KdCall> cached_call(const KdSide& student, const TeacherColumns& teacher,
                                       int64_t chunks, const KdOptions& options,
                                       std::shared_ptr<const VocabularyMap> map) {
  const auto call = student_call(student, chunks, options, std::move(map));
  // The teacher's vocabulary is the map's, or the student's own.
  call->teacher_columns = call->map ? call->map->teacher_vocab : call->student_columns;
  check_teacher_columns(teacher, call->teacher_columns, options);
  check_kd_vocabularies(options, call->student_columns, call->teacher_columns, call->map.get());
  call->teacher_first = first_rows(teacher.chunk, chunks, "teacher");
  XRUN_CHECK(teacher.chunk.size(0) == teacher.id.size(0),
             "xrun.kd: teacher.chunk has {} rows, teacher.id {}", teacher.chunk.size(0),
             teacher.id.size(0));
  call->cached =
      TeacherColumns{.id = teacher.id.contiguous(), .logprob = teacher.logprob.contiguous()};
  check_chunk_columns(call->cached->id, call->teacher_first);
  call->blocks = make_blocks(call->student_first, call->teacher_first);
  return call;
}

CachedRows cached_rows(const KdCall& call, int64_t c) {
  const TeacherColumns& cached = *call.cached;
  const int64_t t = call.teacher_first[c], k = cached.id.size(1);
  return {cached.id.const_data_ptr<int64_t>() + t * k,
          cached.logprob.const_data_ptr<float>() + t * k, call.teacher_first[c + 1] - t, k};
}

}  // namespace xrun
