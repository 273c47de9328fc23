#pragma once
// Generated text: stop strings, streaming, and the tokens that end an answer.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/rollout/generate.h"

namespace xrun {

class ChatTemplate;
class Tokenizer;

struct TextSample {
  Generation generation;
  std::string text;    // without special tokens; ends before a stop string
  std::string reason;  // "stop" with an id, "stop_string", "length", "interrupted"
};

struct TextOptions {
  GenerateOptions generate = {};  // its `finished` is not called
  // The text ends before the first of these; the ids end with the token that completed it. A string
  // that spells a special token is a stop id.
  std::vector<std::string> stop = {};
  // Called with text as it becomes certain: whole characters that cannot begin a stop string. The
  // pieces of a sequence, given by its index in the results, make up its text.
  std::function<void(size_t sequence, const std::string& piece)> on_text = {};
  // As GenerateOptions::finished.
  std::function<void(std::vector<TextSample> samples)> finished = {};
};

// Runs generate() and returns the text of each sequence too, unless options.finished took them.
// Throws what generate() throws, and UsageError for a stop string that is empty or not UTF-8.
std::vector<TextSample> sample_text(Model& model, const Tokenizer& tokenizer,
                                    const std::vector<std::vector<int32_t>>& prompts,
                                    const TextOptions& options);

// Returns the ids of stop strings that spell a special token. Special tokens are not part of the
// text, so a scan would never see them.
std::vector<int32_t> special_stop_ids(const Tokenizer& tokenizer,
                                      const std::vector<std::string>& stops);

// Returns the ids that end an answer: eos of generation_config.json or config.json, and of the
// tokenizer.
std::vector<int32_t> stop_ids_of(const Model& model, const Tokenizer& tokenizer);

// Returns the special token that a template writes after an answer, nullopt if there is none.
std::optional<int32_t> turn_end_of(const Tokenizer& tokenizer, const ChatTemplate& chat_template);

}  // namespace xrun
