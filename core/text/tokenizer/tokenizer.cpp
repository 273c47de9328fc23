// Queries on a loaded tokenizer; added tokens take precedence over the vocabulary.

#include "core/text/tokenizer/tokenizer.h"

#include "core/base/error.h"
#include "core/text/tokenizer/decode_stream.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

const std::string* find_text(const NamedTexts& texts, std::string_view name) {
  for (const auto& [known, text] : texts) {
    if (known == name) return &text;
  }
  return nullptr;
}

std::string_view Tokenizer::State::piece(int32_t id) const {
  // An added token's content wins over a piece of its id.
  if (const AddedToken* token = added.find(id)) return token->content;
  const Vocabulary& vocabulary = stages.model->vocabulary();
  return vocabulary.has(id) ? vocabulary.piece(id) : std::string_view();
}

std::optional<int32_t> Tokenizer::State::id_of(std::string_view piece) const {
  if (const AddedToken* token = added.find(piece)) return token->id;
  return stages.model->vocabulary().find(piece);
}

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& dir) {
  return std::shared_ptr<const Tokenizer>(new Tokenizer(load_tokenizer_state(dir)));
}

void Tokenizer::finish_loading() const { state_->stages.model->finish_loading(); }

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  DecodeStream stream(*this, skip_special);
  for (const int32_t id : ids) stream.take(id);
  return stream.finish();
}

int64_t Tokenizer::vocab_size() const { return state_->vocab_size; }

std::optional<int32_t> Tokenizer::id_of(std::string_view piece) const {
  return state_->id_of(piece);
}

std::string_view Tokenizer::piece(int32_t id) const { return state_->piece(id); }

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = state_->added.find(id);
  return token != nullptr && token->special;
}

std::optional<int32_t> Tokenizer::bos_id() const { return state_->bos.id; }
std::optional<int32_t> Tokenizer::eos_id() const { return state_->eos.id; }
std::optional<int32_t> Tokenizer::pad_id() const { return state_->pad.id; }
const std::string& Tokenizer::unk_token() const { return state_->unk.text; }
const NamedTexts& Tokenizer::named_tokens() const { return state_->named_tokens; }
const NamedTexts& Tokenizer::chat_templates() const { return state_->chat_templates; }
const std::string& Tokenizer::digest() const { return state_->digest; }
const std::string& Tokenizer::notice() const { return state_->notice; }

std::vector<int32_t> Tokenizer::leading_bos() const {
  std::vector<int32_t> ids;
  if (state_->stages.post_processor) state_->stages.post_processor->leading(ids);
  return ids;
}

void check_vocabulary_fits(const std::filesystem::path& dir, const Tokenizer& tokenizer,
                           int64_t rows) {
  XRUN_CHECK(tokenizer.vocab_size() <= rows,
             "{}: the tokenizer has {} ids, the model's embedding {} rows (vocab_size in "
             "config.json); this tokenizer belongs to another model",
             dir.string(), tokenizer.vocab_size(), rows);
}

}  // namespace xrun
