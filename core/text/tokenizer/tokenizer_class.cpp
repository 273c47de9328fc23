// Tokenizer classes of transformers that are fully given by a vocab.json and a merges.txt.

#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

namespace {

constexpr const char* kGpt2Stages = R"({
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "decoder": {"type": "ByteLevel"}
})";

constexpr const char* kNfcGpt2Stages = R"({
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "decoder": {"type": "ByteLevel"}
})";

constexpr const char* kQwen2Stages = R"json({
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|)json"
      R"json( ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
  "decoder": {"type": "ByteLevel"}
})json";

constexpr TokenizerClass kClasses[] = {
    {"GPT2Tokenizer", "gpt2", kGpt2Stages},           {"Qwen2Tokenizer", "qwen2", kQwen2Stages},
    {"Qwen3Tokenizer", "qwen3", kQwen2Stages},        {"CodeGenTokenizer", "codegen", kGpt2Stages},
    {"GPTNeoXTokenizer", "gpt_neox", kNfcGpt2Stages},
};

std::string_view without_fast(std::string_view name) {
  return name.ends_with("Fast") ? name.substr(0, name.size() - 4) : name;
}

}  // namespace

const TokenizerClass* find_tokenizer_class(std::string_view name) {
  for (const TokenizerClass& known : kClasses) {
    if (without_fast(name) == known.name) return &known;
  }
  return nullptr;
}

const TokenizerClass* find_model_type_class(std::string_view model_type) {
  for (const TokenizerClass& known : kClasses) {
    if (model_type == known.model_type) return &known;
  }
  return nullptr;
}

std::string known_tokenizer_classes() {
  std::string names;
  for (const TokenizerClass& known : kClasses) {
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return names;
}

TokenizerPipeline make_class_pipeline(const TokenizerClass& known, const BpeFiles& files,
                                      bool add_prefix_space) {
  Json stages = parse_json(known.stages, known.name);
  Json& pre = stages.as_object()[stages.find("normalizer") != nullptr ? 1 : 0].second;
  Json& byte_level = pre.find("pretokenizers") != nullptr
                         ? pre.find("pretokenizers")->as_array().back()
                         : pre;
  byte_level.set("add_prefix_space", add_prefix_space);
  TokenizerPipeline pipeline;
  if (const Json* json = stages.find("normalizer")) {
    pipeline.normalizer = ComponentTable<Normalizer>::make({*json, known.name});
  }
  pipeline.pre_tokenizer = ComponentTable<PreTokenizer>::make({pre, known.name});
  pipeline.decoder = ComponentTable<TokenDecoder>::make({stages.at("decoder"), known.name});
  pipeline.model = make_bpe_model(files, pipeline.pre_tokenizer->maps_bytes());
  return pipeline;
}

}  // namespace xrun
