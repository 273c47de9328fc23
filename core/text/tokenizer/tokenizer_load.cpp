// Builds a tokenizer from a folder: its files, its added tokens, its special tokens by role.

#include <algorithm>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/text/tokenizer/sentencepiece_model.h"
#include "core/text/tokenizer/tokenizer_class.h"
#include "core/text/tokenizer/tokenizer_folder.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxVocabularyBytes = 512 << 20;

// Returns true if the vocabulary spells every byte in the byte alphabet, as GPT-2's does.
bool spells_all_bytes(std::string_view vocab_json) {
  // U+0143 is the last character of the alphabet, the byte 0xAD; few other vocabularies have it.
  return vocab_json.find("\"\u0143\"") != std::string_view::npos ||
         vocab_json.find("\"\\u0143\"") != std::string_view::npos;
}

// Returns the class of a folder with vocab.json and merges.txt: tokenizer_class, else the
// model_type of config.json, else GPT-2, whose files these are, if the vocabulary is byte-level.
const TokenizerClass& class_of_folder(const fs::path& dir, const FolderSettings& settings,
                                      std::string_view vocab_json) {
  const Json* named = settings.tokenizer_config.find("tokenizer_class");
  if (named != nullptr && named->is_string()) {
    const TokenizerClass* known = find_tokenizer_class(named->as_string());
    XRUN_CHECK(known != nullptr,
               "{}: tokenizer_class: {} is not supported without a tokenizer.json; supported: {}",
               (dir / "tokenizer_config.json").string(), named->as_string(),
               known_tokenizer_classes());
    return *known;
  }
  const Json* type = settings.config.find("model_type");
  if (type != nullptr && type->is_string()) {
    const TokenizerClass* known = find_model_type_class(type->as_string());
    XRUN_CHECK(
        known != nullptr,
        "{}: there is no tokenizer.json and no tokenizer_class in tokenizer_config.json, and "
        "the model_type {} implies none; set tokenizer_class to one of {}",
        dir.string(), type->as_string(), known_tokenizer_classes());
    return *known;
  }
  XRUN_CHECK(
      spells_all_bytes(vocab_json),
      "{}: there is no tokenizer.json, nothing names the tokenizer_class, and vocab.json does "
      "not spell bytes as GPT-2's does; set tokenizer_class in tokenizer_config.json to one "
      "of {}",
      dir.string(), known_tokenizer_classes());
  return *find_tokenizer_class("GPT2Tokenizer");
}

TokenizerPipeline read_vocab_and_merges(const fs::path& dir, FolderSettings& settings) {
  const std::string vocab_name = (dir / "vocab.json").string();
  const std::string merges_name = (dir / "merges.txt").string();
  const PaddedFile vocab(vocab_name, kMaxVocabularyBytes);
  const BpeFiles files{vocab.bytes(),
                       std::make_shared<PaddedFile>(merges_name, kMaxVocabularyBytes), vocab_name,
                       merges_name};
  const TokenizerClass& known = class_of_folder(dir, settings, files.vocab);
  const Json* prefix = settings.tokenizer_config.find("add_prefix_space");
  TokenizerPipeline pipeline = make_class_pipeline(
      known, files, prefix != nullptr && prefix->is_bool() && prefix->as_bool());
  settings.hashed.emplace_back("class", known.name);
  settings.hashed.emplace_back("vocab.json", hash_hex(files.vocab));
  settings.hashed.emplace_back("merges.txt", hash_hex(files.merges->bytes()));

  add_class_roles(settings, known.name, pipeline.model->vocabulary());
  return pipeline;
}

// transformers rebuilds the stages of the classes it knows with this setting, and follows
// tokenizer.json for others; xrun always follows tokenizer.json. If the two disagree, the ids that
// the model was trained on are unknown.
void check_prefix_space(const fs::path& dir, const FolderSettings& settings, bool prefixes_space) {
  const Json* asked = settings.tokenizer_config.find("add_prefix_space");
  const Json* named = settings.tokenizer_config.find("tokenizer_class");
  if (asked == nullptr || !asked->is_bool() || named == nullptr || !named->is_string()) return;
  // transformers follows tokenizer.json for this class.
  if (named->as_string().starts_with("PreTrainedTokenizer")) return;
  XRUN_CHECK(asked->as_bool() == prefixes_space,
             "{}: add_prefix_space is {}, but tokenizer.json {} a space before a text; make them "
             "agree, or remove add_prefix_space to follow tokenizer.json",
             (dir / "tokenizer_config.json").string(), asked->as_bool(),
             prefixes_space ? "puts" : "does not put");
}

TokenizerPipeline read_pipeline(const fs::path& dir, FolderSettings& settings) {
  const fs::path json = dir / "tokenizer.json";
  if (path_exists(json)) {
    std::string digest;
    TokenizerPipeline pipeline = read_tokenizer_json(json.string(), digest);
    settings.hashed.emplace_back("tokenizer.json", digest);
    check_prefix_space(dir, settings, pipeline.prefixes_space);
    const Json* named = settings.tokenizer_config.find("tokenizer_class");
    if (named != nullptr && named->is_string()) {
      add_class_roles(settings, named->as_string(), pipeline.model->vocabulary());
    }
    return pipeline;
  }
  if (path_exists(dir / "vocab.json") && path_exists(dir / "merges.txt")) {
    return read_vocab_and_merges(dir, settings);
  }
  if (path_exists(dir / "tokenizer.model")) return read_sentencepiece_folder(dir, settings);
  std::error_code ignored;
  XRUN_CHECK(fs::is_directory(dir, ignored), "{}: there is no such folder", dir.string());
  throw Error(
      fmt::format("{}: there is no tokenizer: neither tokenizer.json, nor vocab.json and "
                  "merges.txt, nor tokenizer.model",
                  dir.string()));
}

// Merges the added tokens of all files, assigns ids, and checks them against the vocabulary.
class AddedTokenList {
 public:
  AddedTokenList(const Vocabulary& vocabulary, std::string where)
      : vocabulary_(vocabulary), where_(std::move(where)), next_(vocabulary.size()) {}

  // Entries of one content merge: their ids must agree, and any of them may make it special.
  void put(const AddedToken& token) {
    const auto [known, is_new] = by_content_.emplace(token.content, list_.size());
    if (is_new) {
      AddedToken added = token;
      added.id = id_for(token);
      by_id_.emplace(added.id, list_.size());
      list_.push_back(std::move(added));
      next_ = std::max(next_, int64_t(list_.back().id) + 1);
      return;
    }
    AddedToken& same = list_[known->second];
    XRUN_CHECK(token.id < 0 || token.id == same.id,
               "{}: the added token \"{}\" has two ids, {} and {}", where_, token.content, same.id,
               token.id);
    // A file that only names the token as special does not change its other flags.
    const bool special = token.special || (token.id < 0 && same.special);
    if (token.id >= 0) same = token;
    same.special = special;
  }
  std::vector<AddedToken> take() { return std::move(list_); }
  int64_t end() const { return next_; }

 private:
  int32_t id_for(const AddedToken& token) const {
    const std::optional<int32_t> known = vocabulary_.find(token.content);
    XRUN_CHECK(!known || token.id < 0 || *known == token.id,
               "{}: the added token \"{}\" has id {}, but the vocabulary has it as {}", where_,
               token.content, token.id, known.value_or(-1));
    if (known) return *known;
    // A token without an id gets the next free one, after the vocabulary and all ids so far.
    const int64_t id = token.id >= 0 ? token.id : next_;
    XRUN_CHECK(id <= Vocabulary::kMaxId, "{}: no id is left for the added token \"{}\"", where_,
               token.content);
    XRUN_CHECK(!vocabulary_.has(int32_t(id)),
               "{}: the added token \"{}\" has the id {} of the "
               "piece \"{}\"",
               where_, token.content, id, vocabulary_.piece(int32_t(id)));
    const auto other = by_id_.find(int32_t(id));
    XRUN_CHECK(other == by_id_.end(), "{}: the added tokens \"{}\" and \"{}\" share the id {}",
               where_, list_[other->second].content, token.content, id);
    return int32_t(id);
  }

  const Vocabulary& vocabulary_;
  std::string where_;
  std::vector<AddedToken> list_;
  std::unordered_map<std::string, size_t> by_content_;  // index in list_
  std::unordered_map<int32_t, size_t> by_id_;
  int64_t next_;
};

// Reads a role by its name, else by its id in config.json, whose path is `file`.
Tokenizer::State::Role read_role(const Tokenizer::State& state, const FolderSettings& settings,
                                 const std::string& name, const std::string& file) {
  if (const std::string_view text = settings.names.text(name); !text.empty()) {
    return {state.id_of(text), std::string(text)};
  }
  const Json* value = settings.config.find(name + "_id");
  if (value == nullptr || value->is_null()) return {};
  // If a list names several ends of text, xrun writes the first one.
  const Json& id = value->is_array() && value->size() > 0 ? value->as_array()[0] : *value;
  XRUN_CHECK(id.is_int(), "{}: {}_id: got {}, wanted an id", file, name, id.kind_name());
  // Some configurations name an id beyond the vocabulary.
  if (id.as_int() < 0 || id.as_int() >= state.vocab_size) return {};
  const std::string_view text = state.piece(int32_t(id.as_int()));
  if (text.empty()) return {};
  return {int32_t(id.as_int()), std::string(text)};
}

// Makes the post-processor of a tokenizer.model. A token that only config.json names is not added.
void add_surrounding_tokens(const TokenNames& names, Tokenizer::State& state) {
  std::vector<int32_t> before, after;
  const auto add = [&](const char* name, std::vector<int32_t>& ids) {
    if (const auto id = state.id_of(names.text(name))) ids.push_back(*id);
  };
  if (state.stages.adds_bos) add("bos_token", before);
  if (state.stages.adds_eos) add("eos_token", after);
  state.stages.post_processor = make_surrounding_processor(std::move(before), std::move(after));
}

}  // namespace

std::unique_ptr<Tokenizer::State> load_tokenizer_state(const fs::path& dir) {
  FolderSettings settings = read_folder_settings(dir);
  auto state = std::make_unique<Tokenizer::State>();
  state->stages = read_pipeline(dir, settings);
  AddedTokenList added(state->stages.model->vocabulary(), dir.string());
  state->notice = package_numbering(state->stages.added, state->stages.model->vocabulary());
  // The tokens of tokenizer.json come first: they have ids, and other files name most of them
  // again.
  for (const AddedToken& token : state->stages.added) added.put(token);
  for (const AddedToken& token : settings.added) added.put(token);
  state->vocab_size = added.end();
  state->added = AddedTokens(added.take(), state->stages.normalizer.get());
  if (state->stages.adds_bos || state->stages.adds_eos) {
    add_surrounding_tokens(settings.names, *state);
  }
  if (state->stages.post_processor) {
    state->stages.post_processor->each_id([&](int64_t id) {
      XRUN_CHECK(id < state->vocab_size,
                 "{}: post_processor: the id {} is not in the vocabulary "
                 "of {}",
                 (dir / "tokenizer.json").string(), id, state->vocab_size);
    });
  }
  const std::pair<const char*, Tokenizer::State::Role*> roles[] = {{"bos_token", &state->bos},
                                                                   {"eos_token", &state->eos},
                                                                   {"pad_token", &state->pad},
                                                                   {"unk_token", &state->unk}};
  for (const auto& [name, role] : roles) {
    *role = read_role(*state, settings, name, (dir / "config.json").string());
  }
  state->named_tokens = settings.names.texts();
  state->chat_templates = settings.chat_templates;
  Hasher hasher;
  for (const auto& [name, text] : settings.hashed) hasher.field(name, text);
  // The hashed files do not include config.json, and of its roles only EOS decides tokens and
  // masks.
  if (state->eos.id && settings.names.text("eos_token").empty()) {
    hasher.field("eos_token_id", std::to_string(*state->eos.id));
  }
  state->digest = hasher.hex();
  return state;
}

}  // namespace xrun
