// GGUF keeps a byte-level BPE as tokens, "left right" merges and a named pre-tokenizer; the names
// mean the same regular expressions as in ggml-org/llama.cpp, src/llama-vocab.cpp. For
// "smollm" these are the model's own digit split and GPT-2's expression, in that order.

#include "core/model/weights/gguf_tokenizer.h"

#include <string>
#include <string_view>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/tokenizer_json_entries.h"
#include "core/model/weights/gguf.h"
#include "core/model/weights/gguf_keys.h"

namespace xrun {

namespace {

// ggml's llama_token_type: 1 is a normal token, 2 the unknown one, 6 a byte.
enum TokenType : int64_t { kControl = 3, kUserDefined = 4 };

Json object(Json::Object members) { return Json(std::move(members)); }

Json split(const char* regex) {
  return object({{"type", "Split"},
                 {"pattern", object({{"Regex", regex}})},
                 {"behavior", "Isolated"},
                 {"invert", false}});
}

Json sequence(Json first, Json second) {
  return object({{"type", "Sequence"},
                 {"pretokenizers", Json(Json::Array{std::move(first), std::move(second)})}});
}

constexpr const char* kLlama3Regex =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kQwen2Regex =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// A named pre-tokenizer in the terms of tokenizer.json.
struct GgufPreTokenizer {
  Json normalizer, pre_tokenizer;
  bool ignore_merges = false;
  bool adds_bos = false;  // if the file does not say
};

// The name stands for a regular expression that the file does not hold.
GgufPreTokenizer find_pre_tokenizer(const std::string& where, const std::string& name) {
  if (name == "gpt-2") return {nullptr, byte_level_json(true)};
  if (name == "smollm") {
    Json digits = object({{"type", "Digits"}, {"individual_digits", true}});
    return {nullptr, sequence(std::move(digits), byte_level_json(true))};
  }
  // Llama 3: a piece that is a token needs no merges, and BOS is added unless the file says
  // otherwise.
  if (name == "llama-bpe") {
    return {nullptr, sequence(split(kLlama3Regex), byte_level_json(false)), true, true};
  }
  if (name == "qwen2") {
    return {object({{"type", "NFC"}}), sequence(split(kQwen2Regex), byte_level_json(false))};
  }
  throw Error(
      fmt::format("{}: tokenizer.ggml.pre is \"{}\"; supported: gpt-2, smollm, "
                  "llama-bpe, qwen2",
                  where, name));
}

// As strict as for a tokenizer.json: every merge must make a token.
Json bpe_model(const GgufKeys& in, const Json::Array& tokens, bool ignore_merges) {
  std::unordered_set<std::string_view> known;
  Json::Object vocab;
  for (const Json& token : tokens) {
    XRUN_CHECK(known.insert(token.as_string()).second,
               "{}: tokenizer.ggml.tokens holds \"{}\" twice", in.where(), token.as_string());
    // The id of a token is its index.
    vocab.emplace_back(token.as_string(), static_cast<int64_t>(vocab.size()));
  }
  Json::Array merges;
  for (const Json& merge : in.array("merges", Json::Kind::kString)) {
    const std::string& text = merge.as_string();
    // The left side has at least one character.
    const size_t space = text.find(' ', 1);
    XRUN_CHECK(space != std::string::npos,
               "{}: tokenizer.ggml.merges, entry {}: \"{}\" is not a pair", in.where(),
               merges.size() + 1, text);
    const std::string left = text.substr(0, space), right = text.substr(space + 1);
    XRUN_CHECK(known.contains(left) && known.contains(right) && known.contains(left + right),
               "{}: tokenizer.ggml.merges, entry {}: \"{}\" joins or makes a token that is not in "
               "tokenizer.ggml.tokens",
               in.where(), merges.size() + 1, text);
    merges.push_back(Json(Json::Array{left, right}));
  }
  return object({{"type", "BPE"},
                 {"dropout", nullptr},
                 {"unk_token", nullptr},
                 {"continuing_subword_prefix", nullptr},
                 {"end_of_word_suffix", nullptr},
                 {"fuse_unk", false},
                 {"byte_fallback", false},
                 {"ignore_merges", ignore_merges},
                 {"vocab", Json(std::move(vocab))},
                 {"merges", Json(std::move(merges))}});
}

// Without types the file has no special tokens.
Json::Array added_tokens(const GgufKeys& in, const Json::Array& tokens) {
  Json::Array added;
  if (in.find("token_type") == nullptr) return added;
  const Json::Array& types = in.array("token_type", Json::Kind::kInt);
  XRUN_CHECK(types.size() == tokens.size(),
             "{}: tokenizer.ggml.token_type has {} entries for {} tokens", in.where(), types.size(),
             tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t type = types[i].as_int();
    // Only these two are matched as a whole, before any merge.
    if (type != kControl && type != kUserDefined) continue;
    added.push_back(
        added_token_json(static_cast<int64_t>(i), tokens[i].as_string(), type == kControl));
  }
  return added;
}

// A TemplateProcessing that puts `token` before every text.
Json bos_processor(const std::string& token, int64_t id) {
  const Json bos = object({{"SpecialToken", object({{"id", token}, {"type_id", 0}})}});
  const auto text = [](const char* which, int type) {
    return object({{"Sequence", object({{"id", which}, {"type_id", type}})}});
  };
  const Json one =
      object({{"id", token}, {"ids", Json(Json::Array{id})}, {"tokens", Json(Json::Array{token})}});
  return object({{"type", "TemplateProcessing"},
                 {"single", Json(Json::Array{bos, text("A", 0)})},
                 {"pair", Json(Json::Array{bos, text("A", 0), text("B", 1)})},
                 {"special_tokens", object({{token, one}})}});
}

// The member "chat_template" of tokenizer_config.json: null, a string, or a list of named strings
// if there are named templates (tokenizer.chat_template.NAME).
Json chat_templates(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  Json::Object named;
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(kKey) || !value.is_string()) continue;
    const std::string_view rest = std::string_view(key).substr(kKey.size());
    if (rest.empty()) named.emplace_back("default", value);
    if (rest.size() > 1 && rest[0] == '.') named.emplace_back(rest.substr(1), value);
  }
  if (named.empty()) return nullptr;
  if (named.size() == 1 && named[0].first == "default") return named[0].second;
  Json list = Json::array();
  for (auto& [name, text] : named) {
    list.push_back(object({{"name", name}, {"template", std::move(text)}}));
  }
  return list;
}

}  // namespace

// Written as transformers writes them, so that nothing else has to know GGUF.
TokenizerFiles tokenizer_from_gguf(const GgufFile& file, int64_t max_length) {
  const GgufKeys in(file, "tokenizer.ggml.");
  const std::string model = in.string("model");
  XRUN_CHECK(model == "gpt2",
             "{}: tokenizer.ggml.model is \"{}\"; only byte-level BPE (\"gpt2\") is imported",
             in.where(), model);
  const GgufPreTokenizer pre = find_pre_tokenizer(in.where(), in.string("pre"));
  const Json::Array& tokens = in.array("tokens", Json::Kind::kString);

  TokenizerFiles out;
  out.vocab = static_cast<int64_t>(tokens.size());
  Json::Object config = {{"add_prefix_space", false}};
  for (const auto& [name, key] : {std::pair{"bos", "bos_token_id"},
                                  {"eos", "eos_token_id"},
                                  {"unk", "unknown_token_id"},
                                  {"pad", "padding_token_id"}}) {
    const int64_t id = in.id(key, out.vocab);
    if (id < 0) continue;
    config.emplace_back(std::string(name) + "_token", tokens[static_cast<size_t>(id)]);
    // transformers has no unk_token_id in its configurations.
    if (std::string_view(name) != "unk") {
      out.special_ids.emplace_back(std::string(name) + "_token_id", id);
    }
  }
  Json post_processor;
  if (in.boolean("add_bos_token", pre.adds_bos)) {
    const int64_t bos = in.id("bos_token_id", out.vocab);
    XRUN_CHECK(bos >= 0,
               "{}: tokenizer.ggml.add_bos_token is set without tokenizer.ggml.bos_token_id",
               in.where());
    post_processor = bos_processor(tokens[static_cast<size_t>(bos)].as_string(), bos);
  }
  if (Json templates = chat_templates(file); !templates.is_null()) {
    config.emplace_back("chat_template", std::move(templates));
  }
  config.emplace_back("clean_up_tokenization_spaces", false);
  config.emplace_back("model_max_length", max_length);
  // This class uses tokenizer.json unchanged; GPT2Tokenizer would replace the split.
  config.emplace_back("tokenizer_class", "PreTrainedTokenizerFast");
  out.config = Json(std::move(config));
  // Decoding ignores this flag; transformers writes it so.
  Json decoder = byte_level_json(true);
  decoder.set("add_prefix_space", true);
  out.tokenizer = object({{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", Json(added_tokens(in, tokens))},
                          {"normalizer", pre.normalizer},
                          {"pre_tokenizer", pre.pre_tokenizer},
                          {"post_processor", std::move(post_processor)},
                          {"decoder", std::move(decoder)},
                          {"model", bpe_model(in, tokens, pre.ignore_merges)}});
  return out;
}

}  // namespace xrun
