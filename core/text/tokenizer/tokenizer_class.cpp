// Pipeline stages and default tokens of the tokenizer classes in transformers 5.

#include "core/text/tokenizer/tokenizer_class.h"

#include "core/base/json.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

// The components that transformers' class builds if there is no tokenizer.json.
constexpr const char* kGpt2Stages = R"({
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "decoder": {"type": "ByteLevel"}
})";

constexpr const char* kNfcGpt2Stages = R"({
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "decoder": {"type": "ByteLevel"}
})";

constexpr const char* kQwen2Stages =
    R"json({
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|)json"
    R"json( ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
  "decoder": {"type": "ByteLevel"}
})json";

constexpr TokenizerClass kTokenizerClasses[] = {
    {"GPT2Tokenizer", "gpt2", kGpt2Stages},           {"Qwen2Tokenizer", "qwen2", kQwen2Stages},
    {"Qwen3Tokenizer", "qwen3", kQwen2Stages},        {"CodeGenTokenizer", "codegen", kGpt2Stages},
    {"GPTNeoXTokenizer", "gpt_neox", kNfcGpt2Stages},
};

// The defaults of the classes, for roles that no file names.
constexpr ClassRole kGpt2Roles[] = {
    {"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}};

constexpr ClassRole kQwen2Roles[] = {
    {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}};

constexpr ClassRole kNeoXRoles[] = {{"bos_token", "<|endoftext|>"},
                                    {"eos_token", "<|endoftext|>"},
                                    {"unk_token", "<|endoftext|>"},
                                    {"pad_token", "<|padding|>"}};

constexpr ClassRole kLlamaRoles[] = {
    {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};

constexpr ClassRole kGemmaRoles[] = {{"bos_token", "<bos>"},
                                     {"eos_token", "<eos>"},
                                     {"unk_token", "<unk>"},
                                     {"pad_token", "<pad>"},
                                     {"mask_token", "<mask>"}};

constexpr ClassRole kCohereRoles[] = {
    {"bos_token", "<BOS_TOKEN>"},  {"eos_token", "<|END_OF_TURN_TOKEN|>"},
    {"unk_token", "<UNK>"},        {"sep_token", "<SEP>"},
    {"pad_token", "<PAD>"},        {"cls_token", "<CLS>"},
    {"mask_token", "<MASK_TOKEN>"}};

constexpr ClassRole kT5Roles[] = {
    {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};

struct RoleDefaults {
  std::string_view name;
  std::span<const ClassRole> roles;
};

constexpr RoleDefaults kRoleDefaults[] = {
    {"GPT2Tokenizer", kGpt2Roles},     {"CodeGenTokenizer", kGpt2Roles},
    {"Qwen2Tokenizer", kQwen2Roles},   {"Qwen3Tokenizer", kQwen2Roles},
    {"Qwen3_5Tokenizer", kQwen2Roles}, {"GPTNeoXTokenizer", kNeoXRoles},
    {"LlamaTokenizer", kLlamaRoles},   {"CodeLlamaTokenizer", kLlamaRoles},
    {"GemmaTokenizer", kGemmaRoles},   {"CohereTokenizer", kCohereRoles},
    {"T5Tokenizer", kT5Roles},
};

std::string_view without_fast(std::string_view name) {
  // The fast and the slow class have the same stages.
  return name.ends_with("Fast") ? name.substr(0, name.size() - 4) : name;
}

}  // namespace

const TokenizerClass* find_tokenizer_class(std::string_view name) {
  for (const TokenizerClass& known : kTokenizerClasses) {
    if (without_fast(name) == known.name) return &known;
  }
  return nullptr;
}

const TokenizerClass* find_model_type_class(std::string_view model_type) {
  for (const TokenizerClass& known : kTokenizerClasses) {
    if (model_type == known.model_type) return &known;
  }
  return nullptr;
}

std::string known_tokenizer_classes() {
  std::string names;
  for (const TokenizerClass& known : kTokenizerClasses) {
    add_item(names, known.name);
  }
  return names;
}

TokenizerPipeline make_class_pipeline(const TokenizerClass& known, const BpeFiles& files,
                                      bool add_prefix_space) {
  Json stages = parse_json(known.stages, known.name);
  Json& pre = *stages.find("pre_tokenizer");
  Json& byte_level =
      pre.find("pretokenizers") != nullptr ? pre.find("pretokenizers")->as_array().back() : pre;
  byte_level.set("add_prefix_space", add_prefix_space);
  TokenizerPipeline pipeline;
  if (const Json* json = stages.find("normalizer")) {
    pipeline.normalizer = make_normalizer({*json, known.name});
  }
  pipeline.pre_tokenizer = make_pre_tokenizer({pre, known.name});
  pipeline.decoder = make_token_decoder({stages.at("decoder"), known.name});
  pipeline.model = make_bpe_model(files, pipeline.pre_tokenizer->maps_bytes());
  return pipeline;
}

std::span<const ClassRole> class_roles(std::string_view tokenizer_class) {
  for (const RoleDefaults& known : kRoleDefaults) {
    if (known.name == without_fast(tokenizer_class)) return known.roles;
  }
  return {};
}

}  // namespace xrun
