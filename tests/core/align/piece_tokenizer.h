#pragma once
// A tokenizer of given pieces, and ids by piece, for tests of alignments.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/scratch_folder.h"

namespace xrun {

// A special token and the role that tokenizer_config.json gives it ("eos_token"), or "".
using RoleToken = std::pair<std::string, std::string>;

// Returns a byte-level tokenizer without merges: the ids of `pieces` (any bytes) count from 0,
// those of `specials` follow.
inline std::shared_ptr<const Tokenizer> piece_tokenizer(
    const std::vector<std::string>& pieces, const std::vector<RoleToken>& specials = {}) {
  Json vocab = Json::object(), added = Json::array(), config = Json::object();
  for (const std::string& piece : pieces) {
    std::string spelled;
    append_spelled(spelled, piece);
    vocab.set(spelled, int64_t(vocab.size()));
  }
  for (const auto& [content, role] : specials) {
    added.push_back(Json(Json::Object{{"id", int64_t(vocab.size() + added.size())},
                                      {"content", content},
                                      {"special", true},
                                      {"normalized", false}}));
    if (!role.empty()) config.set(role, content);
  }
  const Json model(Json::Object{{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}});
  const Json stage(
      Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  ScratchFolder folder;
  folder.write("tokenizer.json", dump_json(Json(Json::Object{{"added_tokens", added},
                                                             {"pre_tokenizer", stage},
                                                             {"decoder", stage},
                                                             {"model", model}})));
  folder.write("tokenizer_config.json", dump_json(config));
  return Tokenizer::load(folder.path());
}

// Returns the ids of pieces, which are bytes or special tokens.
inline std::vector<int32_t> ids_of_pieces(const Tokenizer& tokenizer,
                                          const std::vector<std::string>& pieces) {
  std::vector<int32_t> ids;
  for (const std::string& piece : pieces) {
    std::string spelled;
    append_spelled(spelled, piece);
    const auto content = tokenizer.id_of(spelled);
    ids.push_back(content ? *content : tokenizer.id_of(piece).value());
  }
  return ids;
}

// "ab|c" as {"ab", "c"}.
inline std::vector<std::string> cut_at_bars(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '|') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return text.empty() ? std::vector<std::string>{} : parts;
}

}  // namespace xrun
