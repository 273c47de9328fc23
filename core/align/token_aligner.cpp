// Texts are aligned by bytes or offsets, and ids by bytes. Equal ids of vocabularies that agree
// need neither.

#include "core/align/token_aligner.h"

#include <algorithm>
#include <utility>

namespace xrun {

TokenAligner::TokenAligner(std::shared_ptr<const Tokenizer> student,
                           std::shared_ptr<const Tokenizer> teacher, WalkOptions options)
    : student_(std::move(student)),
      teacher_(std::move(teacher)),
      student_table_(*student_),
      teacher_table_(*teacher_),
      vocabularies_(compare_vocabularies(*student_, *teacher_)),
      options_(options) {}

// One vocabulary may extend the other: their common ids mean the same.
bool TokenAligner::is_identity(std::span<const int32_t> student,
                               std::span<const int32_t> teacher) const {
  return vocabularies_ != VocabularyMatch::kDifferent &&
         std::equal(student.begin(), student.end(), teacher.begin(), teacher.end());
}

AlignedTokens TokenAligner::text(std::string_view text, bool add_specials) const {
  EncodeOptions encode;
  encode.add_post_processor = add_specials;
  Encoding s = student_->encode(text, encode), t = teacher_->encode(text, encode);
  AlignedTokens out;
  out.replaced = s.replaced;
  out.pairs = is_identity(s.ids, t.ids) ? identity_alignment(int64_t(s.ids.size()))
                                        : walk_tokens(text, {student_table_, s},
                                                      {teacher_table_, t}, options_, &out.findings);
  out.student_ids = std::move(s.ids);
  out.teacher_ids = std::move(t.ids);
  return out;
}

AlignedTokens TokenAligner::ids(std::span<const int32_t> student,
                                std::span<const int32_t> teacher) const {
  AlignedTokens out;
  out.student_ids.assign(student.begin(), student.end());
  out.teacher_ids.assign(teacher.begin(), teacher.end());
  out.pairs = is_identity(student, teacher) ? identity_alignment(int64_t(student.size()))
                                            : walk_tokens(student_table_, student, teacher_table_,
                                                          teacher, options_, &out.findings);
  return out;
}

}  // namespace xrun
