#pragma once
// Text for prompts: stop strings, streaming, and what ends an answer, over generate.h.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/model/generate.h"

namespace xrun {

class ChatTemplate;
class Tokenizer;

struct TextOptions {
  GenerateOptions generate = {};
  // The text ends before the first of these, the ids with the token that completed it. One that
  // spells a special token is a stop id.
  std::vector<std::string> stop = {};
  // Called with text as it becomes certain: never part of a character, never text that may begin a
  // stop string. The pieces of a sequence (its place in the results) make up its text.
  std::function<void(size_t sequence, const std::string& piece)> on_text = {};
};

struct TextSample {
  Generation generation;
  std::string text;    // without special tokens; ends before a stop string
  std::string reason;  // "stop" with an id, "stop_string", "length", "interrupted"
};

// As generate(), with the text of each sequence. Throws what it throws; UsageError for a stop
// string that is empty or not UTF-8.
std::vector<TextSample> sample_text(Model& model, const Tokenizer& tokenizer,
                                    const std::vector<std::vector<int32_t>>& prompts,
                                    const TextOptions& options);

// The ids that end an answer: eos of generation_config.json or config.json, and the tokenizer's
// own.
std::vector<int32_t> stop_ids_of(const Model& model, const Tokenizer& tokenizer);

// The special token that a template writes behind an answer, which ends it in a conversation;
// nothing if there is none.
std::optional<int32_t> turn_end_of(const Tokenizer& tokenizer, const ChatTemplate& chat_template);

}  // namespace xrun
