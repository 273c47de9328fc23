// A token cache has only ids, and another template writes different text around the messages, so
// the messages come from the row's file. AlignedRows asks for each row once.

#include "core/align/chat_companions.h"

#include <utility>

#include "core/align/chat_regions.h"
#include "core/base/error.h"
#include "core/base/threads.h"
#include "core/text/chat/chat_tokens.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

ChatCompanions::ChatCompanions(DataSet set, std::shared_ptr<const Retokenizer> retokenizer,
                               std::shared_ptr<const ChatTemplate> chat_template, int workers)
    : set_(std::move(set)),
      retokenizer_(std::move(retokenizer)),
      template_(std::move(chat_template)),
      workers_(workers) {}

CompanionTokens ChatCompanions::align_one(const Document& document, const RowTrace& row) const {
  const RowTrace::Stream& own = row.streams.front();
  const Json kwargs = parse_json(own.inputs[0], "template arguments");
  Json messages = Json::array();
  for (size_t m = 1; m < own.inputs.size(); ++m) {
    messages.push_back(parse_json(own.inputs[m], "message"));
  }
  const ChatTokens student{own.ids, {}, own.offsets, own.rendering};
  const ChatTokens teacher = encode_chat(retokenizer_->teacher(), *template_, messages, kwargs);
  const std::vector<MessageRange> ranges =
      message_ranges(*template_, messages, kwargs, teacher.rendering);
  ChatAlignment aligned =
      align_chat({retokenizer_->student_table(), student, own.messages},
                 {retokenizer_->teacher_table(), teacher, ranges}, messages, retokenizer_->walk());
  AlignedDocument pairs{teacher.ids, std::move(aligned.pairs)};
  // A cut row is only the beginning of its conversation.
  cut_document(pairs, std::ssize(document.ids), retokenizer_->limit());
  return companion_of(std::move(pairs), retokenizer_->teacher());
}

std::vector<CompanionTokens> ChatCompanions::align(const std::vector<Document>& documents) const {
  std::vector<int64_t> rows;
  for (const Document& document : documents) rows.push_back(document.row);
  const std::vector<RowTrace> traces = set_.renderings(rows, retokenizer_->student());
  std::vector<CompanionTokens> out(documents.size());
  for_each_on_threads(documents.size(), workers_, [&](size_t i) {
    try {
      out[i] = align_one(documents[i], traces[i]);
    } catch (const Error& error) {
      throw Error(
          fmt::format("{}: the teacher cannot read this conversation: {}; give align() a "
                      "template that can read it, or leave such rows out with a filter",
                      set_.location(documents[i].row), error.what()));
    }
  });
  return out;
}

Json ChatCompanions::made_by() const {
  Json made_by = retokenizer_->made_by();
  made_by.set("aligner", "messages");
  made_by.set("template", template_->digest());
  // The student's tokens do not decide what the messages are.
  made_by.set("data", set_.key_documents());
  return made_by;
}

}  // namespace xrun
