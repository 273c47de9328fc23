// The default arguments of the classes' constructors in transformers 5.

#include "core/text/tokenizer/class_roles.h"

namespace xrun {

namespace {

constexpr ClassRole kGpt2[] = {
    {"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}};

constexpr ClassRole kQwen2[] = {
    {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}};

constexpr ClassRole kNeoX[] = {{"bos_token", "<|endoftext|>"},
                               {"eos_token", "<|endoftext|>"},
                               {"unk_token", "<|endoftext|>"},
                               {"pad_token", "<|padding|>"}};

constexpr ClassRole kLlama[] = {
    {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};

constexpr ClassRole kGemma[] = {{"bos_token", "<bos>"},
                                {"eos_token", "<eos>"},
                                {"unk_token", "<unk>"},
                                {"pad_token", "<pad>"},
                                {"mask_token", "<mask>"}};

constexpr ClassRole kCohere[] = {
    {"bos_token", "<BOS_TOKEN>"},  {"eos_token", "<|END_OF_TURN_TOKEN|>"},
    {"unk_token", "<UNK>"},        {"sep_token", "<SEP>"},
    {"pad_token", "<PAD>"},        {"cls_token", "<CLS>"},
    {"mask_token", "<MASK_TOKEN>"}};

constexpr ClassRole kT5[] = {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};

struct KnownClass {
  std::string_view name;
  std::span<const ClassRole> roles;
};

constexpr KnownClass kClasses[] = {
    {"GPT2Tokenizer", kGpt2},     {"CodeGenTokenizer", kGpt2},    {"Qwen2Tokenizer", kQwen2},
    {"Qwen3Tokenizer", kQwen2},   {"Qwen3_5Tokenizer", kQwen2},   {"GPTNeoXTokenizer", kNeoX},
    {"LlamaTokenizer", kLlama},   {"CodeLlamaTokenizer", kLlama}, {"GemmaTokenizer", kGemma},
    {"CohereTokenizer", kCohere}, {"T5Tokenizer", kT5},
};

}  // namespace

std::span<const ClassRole> class_roles(std::string_view tokenizer_class) {
  if (tokenizer_class.ends_with("Fast")) tokenizer_class.remove_suffix(4);
  for (const KnownClass& known : kClasses) {
    if (known.name == tokenizer_class) return known.roles;
  }
  return {};
}

}  // namespace xrun
