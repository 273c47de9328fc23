#pragma once
// Makes the companions of chat rows: each conversation in the teacher's own template and tokens.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/align/companion_maker.h"
#include "core/data/packs/data_set.h"
#include "core/text/chat/chat_template.h"

namespace xrun {

// Reads the conversations of rows again from their files, renders them with the teacher's template,
// and pairs the texts of the messages and the ends of the assistant's turns (chat_regions.h).
// Thread-safe.
class ChatCompanions : public CompanionMaker {
 public:
  // `set` has rows of xrun.chat; workers 0: one per core.
  ChatCompanions(DataSet set, std::shared_ptr<const Retokenizer> retokenizer,
                 std::shared_ptr<const ChatTemplate> chat_template, int workers = 0);

  // Throws Error that names the row if its file has changed or the teacher's template refuses it.
  std::vector<CompanionTokens> align(const std::vector<Document>& documents) const override;
  const std::string& fingerprint() const override { return retokenizer_->teacher_fingerprint(); }
  Json made_by() const override;
  int64_t vocab_size() const override { return retokenizer_->teacher().vocab_size(); }

 private:
  CompanionTokens align_one(const Document& document, const RowTrace& row) const;

  DataSet set_;
  std::shared_ptr<const Retokenizer> retokenizer_;
  std::shared_ptr<const ChatTemplate> template_;
  int workers_;
};

}  // namespace xrun
