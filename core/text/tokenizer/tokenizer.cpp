#include "core/text/tokenizer/tokenizer.h"

#include "core/text/tokenizer/decode_stream.h"
#include "core/text/tokenizer/tokenizer_parts.h"

namespace xrun {

const std::string* find_text(const NamedTexts& texts, std::string_view name) {
  for (const auto& [known, text] : texts) {
    if (known == name) return &text;
  }
  return nullptr;
}

std::string_view Tokenizer::Parts::piece(int32_t id) const {
  if (const AddedToken* token = added.find(id)) return token->content;
  const Vocabulary& vocabulary = stages.model->vocabulary();
  return vocabulary.has(id) ? vocabulary.piece(id) : std::string_view();
}

std::optional<int32_t> Tokenizer::Parts::id_of(std::string_view piece) const {
  if (const AddedToken* token = added.find(piece)) return token->id;
  return stages.model->vocabulary().find(piece);
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& dir) {
  return std::shared_ptr<const Tokenizer>(new Tokenizer(load_tokenizer_parts(dir)));
}

void Tokenizer::finish_loading() const { parts_->stages.model->finish_loading(); }

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  DecodeStream stream(*this, skip_special);
  for (const int32_t id : ids) stream.take(id);
  return stream.finish();
}

int64_t Tokenizer::vocab_size() const { return parts_->vocab_size; }

std::optional<int32_t> Tokenizer::id_of(std::string_view piece) const {
  return parts_->id_of(piece);
}

std::string_view Tokenizer::piece(int32_t id) const { return parts_->piece(id); }

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = parts_->added.find(id);
  return token != nullptr && token->special;
}

std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos.id; }
std::optional<int32_t> Tokenizer::eos_id() const { return parts_->eos.id; }
std::optional<int32_t> Tokenizer::pad_id() const { return parts_->pad.id; }
const std::string& Tokenizer::bos_token() const { return parts_->bos.text; }
const std::string& Tokenizer::eos_token() const { return parts_->eos.text; }
const std::string& Tokenizer::pad_token() const { return parts_->pad.text; }
const std::string& Tokenizer::unk_token() const { return parts_->unk.text; }
const NamedTexts& Tokenizer::named_tokens() const { return parts_->named_tokens; }
const NamedTexts& Tokenizer::chat_templates() const { return parts_->chat_templates; }
const std::string& Tokenizer::chat_template() const {
  static const std::string none;
  const std::string* text = find_text(parts_->chat_templates, "default");
  return text == nullptr ? none : *text;
}
const std::string& Tokenizer::digest() const { return parts_->digest; }
const std::string& Tokenizer::notice() const { return parts_->notice; }

std::vector<int32_t> Tokenizer::leading_bos() const {
  std::vector<int32_t> ids;
  if (parts_->stages.post_processor) parts_->stages.post_processor->leading(ids);
  return ids;
}

}  // namespace xrun
