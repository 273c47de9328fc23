#include "core/text/tokenizer/sentencepiece_folder.h"

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/text/tokenizer/class_roles.h"
#include "core/text/tokenizer/sentencepiece_model.h"
#include "core/text/tokenizer/surrounding_tokens.h"

namespace xrun {

namespace {

constexpr uint64_t kMaxBytes = 256 << 20;  // the largest known have 16 MB

bool flag(const Json& config, const char* key, bool fallback) {
  const Json* value = config.find(key);
  return value != nullptr && value->is_bool() ? value->as_bool() : fallback;
}

std::string class_name(const FolderSettings& settings) {
  const Json* name = settings.tokenizer_config.find("tokenizer_class");
  return name != nullptr && name->is_string() ? name->as_string() : "LlamaTokenizer";
}

AddedToken added_token(const SentencePiece& piece, int32_t id) {
  AddedToken token;
  token.id = id;
  token.content = piece.piece;
  token.special = piece.kind != PieceKind::kUserDefined;
  token.normalized = false;
  return token;
}

SurroundingTokens tokens_around(const FolderSettings& settings, const TokenModel& model) {
  const std::string name = class_name(settings);
  const bool llama_like =
      name.starts_with("Llama") || name.starts_with("CodeLlama") || name.starts_with("Gemma");
  const bool t5_like = name.starts_with("T5") || name.starts_with("MT5");
  SurroundingTokens tokens;
  const auto bos = model.vocabulary().find(settings.names.text("bos_token"));
  const auto eos = model.vocabulary().find(settings.names.text("eos_token"));
  if (bos && flag(settings.tokenizer_config, "add_bos_token", llama_like)) {
    tokens.before.push_back(*bos);
  }
  if (eos && flag(settings.tokenizer_config, "add_eos_token", t5_like)) {
    tokens.after.push_back(*eos);
  }
  return tokens;
}

}  // namespace

TokenizerPipeline read_sentencepiece_folder(const std::filesystem::path& dir,
                                            FolderSettings& settings) {
  SentencePieceOptions options;
  options.where = (dir / "tokenizer.model").string();
  options.prefix_everywhere = flag(settings.tokenizer_config, "legacy", true);
  const std::string bytes = read_file(options.where, kMaxBytes);
  const SentencePieceFile file = read_sentencepiece_file(bytes, options.where);
  for (const AddedToken& token : settings.added) {
    if (token.special) options.special.insert(token.content);
  }
  TokenizerPipeline pipeline;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const PieceKind kind = file.pieces[id].kind;
    if (kind == PieceKind::kControl || kind == PieceKind::kUnknown ||
        kind == PieceKind::kUserDefined) {
      pipeline.added.push_back(added_token(file.pieces[id], int32_t(id)));
    }
  }
  pipeline.model = make_sentencepiece_model(bytes, options);
  pipeline.decoder = make_sentencepiece_decoder(file);
  // A class that is not known here names the ends of a text as Llama does, like most of them.
  const std::string name = class_name(settings);
  add_class_roles(settings, class_roles(name).empty() ? "LlamaTokenizer" : name,
                  pipeline.model->vocabulary());
  pipeline.post_processor =
      std::make_unique<SurroundingProcessor>(tokens_around(settings, *pipeline.model));
  settings.hashed.emplace_back("tokenizer.model", hash_hex(bytes));
  return pipeline;
}

}  // namespace xrun
