// Both files of the byte-level tokenizer as transformers writes them.

#include "core/text/chat/bytes_tokenizer.h"

#include <string>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/tokenizer_json_entries.h"
#include "core/text/chat/template_families.h"
#include "core/text/tokenizer/byte_alphabet.h"

namespace xrun {
namespace {

// The id of a byte is its value; the marks follow.
constexpr int64_t kBytes = 256;
constexpr const char* kMarks[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

// normalized = false: found in the raw text. special: decoding can leave them out.
Json marks() {
  Json tokens = Json::array();
  for (int64_t id = kBytes; const char* mark : kMarks) {
    tokens.push_back(added_token_json(id++, mark, /*special=*/true));
  }
  return tokens;
}

// Keys are in the printable alphabet of ByteLevel, where a space is Ġ.
Json vocabulary() {
  Json ids = Json::object();
  for (int64_t byte = 0; byte < kBytes; ++byte) {
    std::string spelled;
    const char c = static_cast<char>(byte);
    append_spelled(spelled, {&c, 1});
    ids.set(spelled, byte);
  }
  return ids;
}

}  // namespace

void write_bytes_tokenizer(const std::filesystem::path& dir) {
  const Json model(
      // Without merges every byte is one token.
      Json::Object{{"type", "BPE"}, {"vocab", vocabulary()}, {"merges", Json::array()}});
  const Json tokenizer(Json::Object{{"version", "1.0"},
                                    {"added_tokens", marks()},
                                    {"normalizer", Json()},
                                    {"pre_tokenizer", byte_level_json(/*use_regex=*/true)},
                                    {"post_processor", Json()},
                                    {"decoder", byte_level_json(/*use_regex=*/true)},
                                    {"model", model}});
  // <|im_end|> is the EOS, so sampling stops at the end of an answer.
  const Json config(Json::Object{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                 {"eos_token", kMarks[2]},
                                 {"pad_token", kMarks[0]},
                                 {"model_max_length", int64_t{4096}},
                                 {"chat_template", find_builtin("chatml")->source}});
  write_file_atomic(dir / "tokenizer.json", dump_json(tokenizer) + "\n");
  write_file_atomic(dir / "tokenizer_config.json", dump_json(config) + "\n");
}

}  // namespace xrun
