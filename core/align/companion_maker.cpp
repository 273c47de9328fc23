// Documents are independent, so each is aligned whole on one thread.

#include "core/align/companion_maker.h"

#include <utility>

#include "core/base/threads.h"

namespace xrun {

CompanionTokens companion_of(AlignedDocument document, const Tokenizer& teacher) {
  CompanionTokens out;
  for (const AlignedPair& pair : document.pairs) {
    if (pair.s_begin < 0 || pair.t_begin < 0) {
      ++out.one_sided;
    } else if (pair.correct) {
      out.chunks.push_back({pair.s_begin, pair.s_end, pair.t_begin, pair.t_end});
    } else {
      ++out.wrong;
    }
  }
  out.covered = document.covered;
  out.ids = std::move(document.teacher_ids);
  if (out.ids.empty()) out.ids.push_back(teacher.eos_id().value_or(0));
  return out;
}

TextCompanions::TextCompanions(std::shared_ptr<const Retokenizer> retokenizer, int workers)
    : retokenizer_(std::move(retokenizer)), workers_(workers) {}

std::vector<CompanionTokens> TextCompanions::align(const std::vector<Document>& documents) const {
  std::vector<CompanionTokens> out(documents.size());
  for_each_on_threads(documents.size(), workers_, [&](size_t i) {
    out[i] = companion_of(retokenizer_->align(documents[i].ids), retokenizer_->teacher());
  });
  return out;
}

}  // namespace xrun
