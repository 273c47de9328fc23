// The encoders of rows that a chat template renders:
//   preference   two conversations that share a prompt; the turns after it are trained
//   chat         one conversation; its assistant turns are trained, or only the completion
//   feedback     one answer with a label that says whether it is desirable; the answer is trained
//   prompts      a conversation without its answer; nothing is trained

#include <algorithm>

#include "core/base/strings.h"
#include "core/data/rows/conversation_row.h"
#include "core/data/rows/conversation_tokens.h"
#include "core/data/rows/feedback_label.h"
#include "core/data/rows/lost_turns.h"
#include "core/data/rows/messages.h"
#include "core/data/rows/preference_row.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/row_length.h"
#include "core/data/rows/tool_calls.h"
#include "core/data/rows/turn_flags.h"
#include "core/text/chat/fitting_templates.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

namespace {

// The style refers to `encoding`, so an encoder passes its own copy.
ConversationStyle style_of(const RowEncoding& encoding) {
  return {*encoding.tokenizer,          *encoding.chat_template,      encoding.settings.train_on,
          encoding.settings.lost_calls, encoding.settings.lost_turns, encoding.trace};
}

// Rewrites what the template would spoil or lose into what it renders with the same meaning.
void fit_to_template(const RowEncoding& encoding, const Json& kwargs, Json& messages,
                     std::vector<std::string>& notes) {
  map_developer_turns(messages, kwargs, *encoding.chat_template, notes);
  parse_arguments(messages, kwargs, *encoding.chat_template, encoding.settings.lost_calls, notes);
}

// Notes a template of another tokenizer: no law is broken, but generation has nothing to stop at.
void note_plain_turns(const RowEncoding& encoding, const EncodedRow& out,
                      std::vector<std::string>& notes) {
  const Tokenizer& tokenizer = *encoding.tokenizer;
  const std::vector<int32_t>& ids = out.streams[0].ids;
  const bool marks = std::any_of(ids.begin(), ids.end(), [&](int32_t id) {
    return id == tokenizer.eos_id() || (tokenizer.is_special(id) && id != tokenizer.bos_id());
  });
  if (marks) return;
  std::string& note = encoding.plain_turns_note;
  if (note.empty()) {
    note =
        "the template's end of turn is ordinary text to this tokenizer, so sampling cannot stop "
        "there; choose a template that ends turns with one of its special tokens";
    const std::vector<std::string> fitting = fitting_templates(tokenizer);
    if (!fitting.empty()) note += ": " + joined(fitting, ", ");
  }
  notes.push_back(note);
}

// Returns the end of a refusal for an empty mask: there is no answer among the messages from
// `given` on, or it names the flag that excludes one, or the template, which marks none of them.
std::string mask_cause(const Json& messages, size_t given) {
  bool answers = false;
  for (size_t m = given; m < messages.size(); ++m) {
    const Json& message = messages.as_array()[m];
    if (!is_assistant(message)) continue;
    answers = true;
    const char* flag = untrained_by(message);
    if (flag == nullptr) continue;
    return fmt::format(": the \"{}\" of an assistant turn excludes it", flag);
  }
  if (!answers) return ": no assistant turn follows the prompt";
  return ": no {% generation %} block of the template covers an answer; name a template whose "
         "blocks do, say --set template=chatml";
}

// Ends every encoder: adds notes, moves the extras of `row` into `out` and applies max_length.
void finish_row(const RowEncoding& encoding, std::initializer_list<std::string_view> names,
                const Json& messages, const Json& kwargs, RowExtras& row, EncodedRow& out) {
  note_lost_parts(messages, kwargs, *encoding.chat_template, encoding.settings.lost_turns,
                  row.notes);
  note_unmatched_results(messages, row.notes);
  if (is_trained(out.streams[0])) note_plain_turns(encoding, out, row.notes);
  static_cast<RowExtras&>(out) = std::move(row);
  fit_length(encoding, names, out);
}

// Sides of equal tokens express no preference, even if their texts differ.
void require_different_sides(const EncodedRow& row, const std::string& cause) {
  if (row.streams[0].ids != row.streams[1].ids) return;
  throw RowRefusal("same_answers", "chosen and rejected become the same tokens: " + cause);
}

class PreferenceEncoder : public RowEncoder {
 public:
  explicit PreferenceEncoder(const RowEncoding& encoding)
      : RowEncoder(encoding), reader_(encoding.settings), style_(style_of(encoding_)) {}

  void encode_value(const Json& value, const std::string&, EncodedRow& out) const override {
    PreferenceRow row = read_pair(value);
    const Json* sides[2] = {&row.chosen, &row.rejected};
    for (size_t s = 0; s < 2; ++s) {
      out.streams[s] =
          encode_conversation(*sides[s], row.kwargs, row.shared, style_, out.straddlers);
    }
    // Both sides: without a trained token on one of them the pair expresses no preference.
    for (size_t s = 0; s < 2; ++s) {
      if (is_trained(out.streams[s])) continue;
      throw RowRefusal("empty_mask", fmt::format("no token of the {} side is trained{}",
                                                 s == 0 ? "chosen" : "rejected",
                                                 mask_cause(*sides[s], row.shared)));
    }
    require_different_sides(out, "the template or the tokenizer leaves out what differs");
    note_lost_reasoning(row.rejected, row.kwargs, *encoding_.chat_template, row.notes);
    finish_row(encoding_, {"the chosen side", "the rejected side"}, row.chosen, row.kwargs, row,
               out);
    require_different_sides(out, fmt::format("they differ only beyond max_length = {}",
                                             count_text(encoding_.settings.max_length)));
  }

  LawSample law_sample(const Json& value) const override {
    PreferenceRow row = read_pair(value);
    return {"", std::move(row.chosen), std::move(row.rejected), std::move(row.kwargs)};
  }

 private:
  PreferenceRow read_pair(const Json& value) const {
    PreferenceRow row = reader_.read(value);
    fit_to_template(encoding_, row.kwargs, row.chosen, row.notes);
    // Both sides usually give the same notes, and a row counts once under a note.
    std::vector<std::string> notes;
    fit_to_template(encoding_, row.kwargs, row.rejected, notes);
    for (std::string& note : notes) {
      if (std::find(row.notes.begin(), row.notes.end(), note) == row.notes.end()) {
        row.notes.push_back(std::move(note));
      }
    }
    return row;
  }

  PreferenceReader reader_;
  ConversationStyle style_;
};

class ChatEncoder : public RowEncoder {
 public:
  explicit ChatEncoder(const RowEncoding& encoding)
      : RowEncoder(encoding),
        reader_(RowKind::kChat, encoding.settings),
        style_(style_of(encoding_)) {}

  // Trains every answer that neither `given` nor a flag excludes.
  void encode_value(const Json& row, const std::string&, EncodedRow& out) const override {
    ConversationRow chat = read_chat(row);
    out.streams[0] =
        encode_conversation(chat.messages, chat.kwargs, chat.given, style_, out.straddlers);
    if (!is_trained(out.streams[0])) {
      throw RowRefusal("empty_mask", "no token of the conversation is trained" +
                                         mask_cause(chat.messages, chat.given));
    }
    // Up to the first answer, so that rows with one prompt stay on one side of a split.
    chat.prompt_hash = hash_messages(chat.messages, first_answer(chat.messages));
    finish_row(encoding_, {"the conversation"}, chat.messages, chat.kwargs, chat, out);
  }

  LawSample law_sample(const Json& row) const override {
    ConversationRow chat = read_chat(row);
    return {"", std::move(chat.messages), Json(), std::move(chat.kwargs)};
  }

 private:
  static size_t first_answer(const Json& messages) {
    const Json::Array& list = messages.as_array();
    return static_cast<size_t>(std::find_if(list.begin(), list.end(), is_assistant) - list.begin());
  }

  ConversationRow read_chat(const Json& row) const {
    ConversationRow chat = reader_.read(row);
    const Json::Array& list = chat.messages.as_array();
    const auto last = std::find_if(list.rbegin(), list.rend(), is_assistant);
    if (last == list.rend()) {
      const RowFields& fields = reader_.fields();
      const std::string pair = fields.pair_hint(row);
      // The row has only an instruction; its answer may be in a column of another name.
      const bool instruction = fields.find(row, "instruction") != nullptr &&
                               fields.find(row, "messages") == nullptr &&
                               fields.find(row, "conversations") == nullptr;
      throw RowRefusal("no_assistant", "the conversation has no assistant turn" +
                                           other_speakers(chat.messages) +
                                           (!pair.empty() ? pair
                                            : instruction ? fields.other_columns(row, "output")
                                                          : ""));
    }
    // An empty earlier answer is noted below; without the last one nothing is left to learn.
    if (!says_something(*last)) {
      throw RowRefusal("empty_answer", "the last assistant turn has no content");
    }
    const bool empty = std::any_of(list.begin(), list.end(), [](const Json& message) {
      return is_assistant(message) && !says_something(message);
    });
    require_user_texts(chat.messages);
    if (empty) chat.notes.push_back("an assistant turn without content is trained");
    if (last != list.rbegin()) chat.notes.push_back("turns after the last answer");
    fit_to_template(encoding_, chat.kwargs, chat.messages, chat.notes);
    return chat;
  }

  ConversationReader reader_;
  ConversationStyle style_;
};

class FeedbackEncoder : public RowEncoder {
 public:
  explicit FeedbackEncoder(const RowEncoding& encoding)
      : RowEncoder(encoding),
        reader_(RowKind::kFeedback, encoding.settings, {"label"}),
        style_(style_of(encoding_)) {}

  void encode_value(const Json& row, const std::string&, EncodedRow& out) const override {
    ConversationRow answer = read_answer(row);
    // Read before rendering, so that a row without a label costs no tokenisation.
    out.label = feedback_label(reader_.fields(), row);
    out.streams[0] =
        encode_conversation(answer.messages, answer.kwargs, answer.given, style_, out.straddlers);
    if (!is_trained(out.streams[0])) {
      throw RowRefusal("empty_mask", "no token of the answer is trained" +
                                         mask_cause(answer.messages, answer.given));
    }
    // Answers to one prompt stay on one side of a split.
    answer.prompt_hash = hash_messages(answer.messages, answer.given);
    finish_row(encoding_, {"the answer with its prompt"}, answer.messages, answer.kwargs, answer,
               out);
  }

  LawSample law_sample(const Json& row) const override {
    ConversationRow answer = read_answer(row);
    return {"", std::move(answer.messages), Json(), std::move(answer.kwargs)};
  }

 private:
  // If the row does not name its prompt, the prompt is everything but the last turn.
  ConversationRow read_answer(const Json& row) const {
    ConversationRow answer = reader_.read(row);
    const Json& last = answer.messages.as_array().back();
    if (!is_assistant(last)) {
      const RowFields& fields = reader_.fields();
      std::string hint = fields.pair_hint(row);
      if (hint.empty() && fields.find(row, "prompt") != nullptr &&
          fields.find(row, "messages") == nullptr) {
        // The row has only a prompt; its answer may be in a column of another name.
        hint = fields.other_columns(row, "completion");
      }
      throw RowRefusal("no_assistant",
                       fmt::format("the last turn is by \"{}\", wanted the assistant's answer{}",
                                   message_role(last), hint));
    }
    if (!says_something(last)) throw RowRefusal("empty_answer", "the answer has no content");
    if (answer.given == 0) answer.given = answer.messages.size() - 1;
    if (answer.given == 0) throw RowRefusal("no_prompt", "no turn comes before the answer");
    require_user_texts(answer.messages);
    fit_to_template(encoding_, answer.kwargs, answer.messages, answer.notes);
    return answer;
  }

  ConversationReader reader_;
  ConversationStyle style_;
};

class PromptsEncoder : public RowEncoder {
 public:
  explicit PromptsEncoder(const RowEncoding& encoding)
      : RowEncoder(encoding),
        reader_(RowKind::kPrompts, encoding.settings),
        style_(style_of(encoding_)) {
    // No mask is made, so the template needs no generation marks.
    style_.train_on = TrainOn::kAll;
    if (encoding_.settings.over_length == OverLength::kCut) {
      throw UsageError(
          "over_length = \"cut\" keeps the prompt, and a prompt row has nothing else to cut; set "
          "over_length to \"raise\" or \"drop\"");
    }
  }

  void encode_value(const Json& row, const std::string&, EncodedRow& out) const override {
    ConversationRow prompt = read_prompt(row);
    // The rendering ends where the answer would begin.
    prompt.kwargs.set("add_generation_prompt", true);
    out.streams[0] = encode_conversation(prompt.messages, prompt.kwargs, 0, style_, out.straddlers);
    out.streams[0].trained.assign(out.streams[0].ids.size(), 0);
    prompt.prompt_hash = hash_messages(prompt.messages, prompt.messages.size());
    finish_row(encoding_, {"the prompt"}, prompt.messages, prompt.kwargs, prompt, out);
  }

 private:
  // A string is a prompt, and so is a row of a .txt file.
  static Json as_prompt(const Json& row) {
    if (row.is_string()) return Json(Json::Object{{"prompt", row}});
    const Json* text = row.size() == 1 ? row.find("text") : nullptr;
    return text == nullptr ? row : Json(Json::Object{{"prompt", *text}});
  }

  ConversationRow read_prompt(const Json& row) const {
    ConversationRow prompt = reader_.read(as_prompt(row));
    Json::Array& turns = prompt.messages.as_array();
    const size_t before = turns.size();
    // `given` is the border that the columns set. Trailing answers are removed in any case.
    if (prompt.given > 0) turns.resize(prompt.given);
    while (!turns.empty() && is_assistant(turns.back())) turns.pop_back();
    if (turns.size() < before) prompt.notes.push_back("the answer is left out of the prompt");
    // Nothing is trained, so the turns' flags have no effect.
    for (Json& turn : turns) turn = without_flags(turn);
    if (turns.empty()) throw RowRefusal("no_prompt", "no turn comes before the answer");
    require_user_texts(prompt.messages);
    fit_to_template(encoding_, prompt.kwargs, prompt.messages, prompt.notes);
    return prompt;
  }

  ConversationReader reader_;
  ConversationStyle style_;
};

}  // namespace

std::unique_ptr<RowEncoder> make_preference_encoder(const RowEncoding& encoding) {
  return std::make_unique<PreferenceEncoder>(encoding);
}

std::unique_ptr<RowEncoder> make_chat_encoder(const RowEncoding& encoding) {
  return std::make_unique<ChatEncoder>(encoding);
}

std::unique_ptr<RowEncoder> make_feedback_encoder(const RowEncoding& encoding) {
  return std::make_unique<FeedbackEncoder>(encoding);
}

std::unique_ptr<RowEncoder> make_prompts_encoder(const RowEncoding& encoding) {
  return std::make_unique<PromptsEncoder>(encoding);
}

}  // namespace xrun
