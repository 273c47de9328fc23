// xrun sample continues prompts, answers conversations, or chats on a terminal.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/process_usage.h"
#include "core/base/strings.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/shown_text.h"
#include "core/data/rows/lost_turns.h"
#include "core/data/rows/messages.h"
#include "core/rollout/answer_text.h"
#include "core/rollout/text_sampler.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/chat.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/model_arguments.h"
#include "tools/commands/row_stream.h"

namespace xrun {

namespace {

constexpr int64_t kChatTokens = 1024;  // of an answer on a terminal, which Ctrl-C ends anyway

struct SampleArguments {
  ModelArguments model;
  TextOptions text = {.generate = {.batch = 32}};
  std::string chat_template = "auto";
  bool chat = false, ignore_eos = false, rate = false;
};

// Turns rows into prompts, and records which of them are conversations.
class SampleRows {
 public:
  SampleRows(const SampleArguments& arguments, const ModelConfig& config,
             std::shared_ptr<const Tokenizer> tokenizer, ChatPrompt& chat)
      : arguments_(arguments), config_(config), tokenizer_(std::move(tokenizer)), chat_(chat) {}

  std::vector<int32_t> parse(const std::string& line, const RowReader& rows) {
    // Before anything can throw, so that a bad row has an entry too.
    conversations_.push_back(arguments_.chat);
    if (!arguments_.model.json) return from_prompt(line);
    const Json row = parse_json(line, rows.name(), rows.line());
    if (const Json* messages = row.find("messages")) {
      const Json kwargs = template_kwargs_of(row);
      conversations_.back() = true;
      std::vector<int32_t> ids = chat_.ids(*messages, kwargs);
      std::vector<std::string> notes;
      note_lost_parts(*messages, kwargs, chat_.chat_template(), /*may_be_lost=*/true, notes);
      for (const std::string& note : notes) notes_.print(rows, note);
      return ids;
    }
    if (const Json* ids = row.find("ids")) return row_ids(*ids, config_);
    const Json* prompt = row.find("prompt");
    XRUN_CHECK(prompt != nullptr,
               "wanted an object with the field \"prompt\", \"messages\" or \"ids\"");
    XRUN_CHECK(prompt->is_string(), "the field \"prompt\" has type {}, wanted a string",
               prompt->kind_name());
    return from_prompt(prompt->as_string());
  }

  // Returns true if a token ends the answer to a row: in a conversation, the template's end of a
  // turn.
  bool ends(uint64_t row, int32_t id) {
    if (arguments_.ignore_eos || !conversations_[row]) return false;
    // Looked up at the first conversation, since plain prompts need no template.
    if (!turn_end_) turn_end_ = turn_end_of(*tokenizer_, chat_.chat_template()).value_or(-1);
    return id == *turn_end_;
  }

 private:
  std::vector<int32_t> from_prompt(const std::string& text) {
    if (arguments_.chat)
      return chat_.ids(Json(Json::Array{chat_message("user", text)}), Json::object());
    hint_chat();
    // BOS but no EOS: the text is to be continued.
    std::vector<int32_t> ids = tokenizer_->leading_bos();
    const Encoding encoding = tokenizer_->encode(text);
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    return ids;
  }

  // A model of chats continues a plain question with anything but an answer.
  void hint_chat() {
    if (hinted_ || arguments_.model.json || tokenizer_->chat_templates().empty()) return;
    hinted_ = true;
    fmt::print(stderr,
               "xrun: note: {} has a chat template, but its prompts are continued as plain text; "
               "--chat makes each one a user message, --json takes {{\"messages\": [...]}}\n",
               shown_text(arguments_.model.model));
  }

  const SampleArguments& arguments_;
  const ModelConfig& config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ChatPrompt& chat_;
  RowNotes notes_;
  std::vector<bool> conversations_;  // by row
  std::optional<int32_t> turn_end_;  // -1: the template writes none
  bool hinted_ = false;
};

// Returns one line: a newline is \n, a carriage return \r, a backslash \\.
std::string escaped(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n')
      line += "\\n";
    else if (c == '\r')
      line += "\\r";
    else if (c == '\\')
      line += "\\\\";
    else
      line += c;
  }
  return line;
}

Json json_floats(const std::vector<float>& values) {
  Json::Array all;
  for (const float value : values) all.push_back(float_json(value));
  return Json(std::move(all));
}

// {"ids","text","logprobs","finish"} and fields that options add, or the text.
std::string answer_line(const TextSample& sample, const SampleArguments& arguments,
                        int64_t number) {
  if (!arguments.model.json) return escaped(sample.text);
  const Generation& made = sample.generation;
  Json::Array ids;
  for (const int32_t id : made.ids) ids.emplace_back(int64_t{id});
  Json line(Json::Object{{"ids", Json(std::move(ids))},
                         {"text", sample.text},
                         {"logprobs", json_floats(made.logprobs)},
                         {"finish", sample.reason}});
  const GenerateOptions& options = arguments.text.generate;
  if (options.sampling.truncates()) line.set("logprobs_kept", json_floats(made.logprobs_kept));
  if (options.samples > 1) line.set("sample", number);
  return dump_json(line);
}

// Answers groups of rows; row n of the input draws as prompt n in any grouping.
class SampleGroups {
 public:
  SampleGroups(const SampleArguments& arguments, Model& model, const Tokenizer& tokenizer,
               SampleRows& rows)
      : arguments_(arguments), model_(model), tokenizer_(tokenizer), rows_(rows) {}

  std::vector<std::string> answer(const std::vector<ModelRow>& rows) {
    TextOptions options = arguments_.text;
    options.generate.progress = [&](int64_t tokens) {
      // The total is 0, unknown, since answers may end early.
      progress_.update(tokens_ + tokens, 0);
      return true;
    };
    std::vector<std::vector<int32_t>> prompts;
    for (const ModelRow& row : rows) {
      if (row.error.empty()) {
        prompts.push_back(row.ids);
        options.generate.prompt_names.push_back(row_);
      }
      // Bad rows count too, so that a row's draws do not depend on the others.
      ++row_;
    }
    // The samples of a prompt are adjacent.
    options.generate.on_token = [&, samples = static_cast<size_t>(options.generate.samples)](
                                    size_t sequence, int32_t id) {
      return rows_.ends(options.generate.prompt_names[sequence / samples], id);
    };
    const auto begin = SteadyClock::now();
    const std::vector<TextSample> samples = sample_text(model_, tokenizer_, prompts, options);
    seconds_ += seconds_since(begin);
    std::vector<std::string> lines;
    size_t next = 0;
    for (const ModelRow& row : rows) {
      if (!row.error.empty()) {
        lines.push_back(error_line(row.error, arguments_.model.json));
        continue;
      }
      for (int64_t i = 0; i < options.generate.samples; ++i) {
        tokens_ += static_cast<int64_t>(samples[next].generation.ids.size());
        lines.push_back(answer_line(samples[next++], arguments_, i));
      }
    }
    return lines;
  }

  void print_rate() const {
    fmt::print(stderr, "xrun: {} new tokens in {:.3f} s, {:.1f} tokens/s\n", count_text(tokens_),
               seconds_, static_cast<double>(tokens_) / std::max(seconds_, 1e-9));
  }

 private:
  const SampleArguments& arguments_;
  Model& model_;
  const Tokenizer& tokenizer_;
  SampleRows& rows_;
  TaskProgress progress_{error_console(), "sampling", "tokens"};
  uint64_t row_ = 0;
  int64_t tokens_ = 0;
  double seconds_ = 0;
};

void add_sampling_options(CLI::App& app, SamplingOptions& sampling) {
  app.add_option("--temperature", sampling.temperature, "0: greedy, always the likeliest token")
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "sample only from the k likeliest tokens; 0: all")
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p,
                 "sample only from the likeliest tokens whose probabilities add up to this")
      ->capture_default_str();
  app.add_option("--min-p", sampling.min_p,
                 "sample only tokens with at least this share of the likeliest one's probability")
      ->capture_default_str();
  app.add_option(
         "--seed", sampling.seed,
         "seed of the draws; an answer depends on it and on the row's number, not on other rows")
      ->check(whole_number(0))
      ->capture_default_str();
}

void add_options(CLI::App& app, SampleArguments& arguments) {
  GenerateOptions& generate = arguments.text.generate;
  add_model_arguments(app, arguments.model);
  app.add_flag(
      "--chat", arguments.chat,
      "prompts are user messages, rendered through the template; on a terminal without FILE, "
      "a conversation");
  app.add_option("--template", arguments.chat_template,
                 "a template file or the name of a built-in one; by default the tokenizer's own")
      ->type_name("FILE");
  app.add_option("--max-new-tokens,--max-tokens", generate.max_new_tokens,
                 "the most tokens of an answer; 1024 on a terminal")
      ->check(whole_number(0))
      ->capture_default_str();
  add_sampling_options(app, generate.sampling);
  app.add_option("--samples", generate.samples, "answers to each row, one line each")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--stop", arguments.text.stop,
                 "a text that ends an answer and is left out of it; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", arguments.ignore_eos,
               "end-of-text and end-of-turn tokens do not end an answer");
  app.add_option("--batch", generate.batch, "answers decoded together")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_flag("--rate", arguments.rate, "print tokens per second on standard error at the end");
}

int answer_all(const SampleArguments& arguments, Model& model,
               const std::shared_ptr<const Tokenizer>& tokenizer, ChatPrompt& chat) {
  SampleRows rows(arguments, model.config(), tokenizer, chat);
  SampleGroups groups(arguments, model, *tokenizer, rows);
  const int64_t limit = model.config().max_length;
  // Groups of many batches, so that a finished answer makes room for a later row.
  const int64_t batch = std::min<int64_t>(arguments.text.generate.batch, 1 << 20);
  const int status = answer_rows(
      arguments.model, batch * 256,
      [&](const std::string& line, const RowReader& at) {
        if (!arguments.model.json) note_json_row(line, at, "is continued as text");
        std::vector<int32_t> ids = rows.parse(line, at);
        XRUN_CHECK(!ids.empty(), "the prompt is empty; a continuation needs at least one token");
        XRUN_CHECK(static_cast<int64_t>(ids.size()) <= limit,
                   "the prompt has {} tokens, the model's limit is {}", ids.size(), limit);
        return ids;
      },
      [&](const std::vector<ModelRow>& group) { return groups.answer(group); });
  if (arguments.rate) groups.print_rate();
  return status;
}

}  // namespace

int command_sample(int argc, char** argv) {
  CLI::App app(
      "Continues each row and writes one line per answer. Rows are lines of text (user messages "
      "with --chat); answers spell a newline \\n and a backslash \\\\. With --json rows are "
      "{\"prompt\"}, {\"messages\"} or {\"ids\"} and answers {\"ids\", \"text\", \"logprobs\", "
      "\"finish\"}. With --chat on a terminal: a conversation.",
      "xrun sample");
  SampleArguments arguments;
  add_options(app, arguments);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  GenerateOptions& generate = arguments.text.generate;
  check_sampling(generate.sampling, "--");
  check_stop_strings(arguments.text.stop);
  // A conversation needs a terminal for input and for output.
  const bool terminal = arguments.chat && arguments.model.file.empty() && !arguments.model.json &&
                        ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  if (arguments.chat && arguments.model.file.empty() && !arguments.model.json && !terminal) {
    fmt::print(stderr, "xrun: each line of the input is a conversation of its own\n");
  }
  if (terminal && app.count("--max-new-tokens") == 0) generate.max_new_tokens = kChatTokens;
  const auto model = open_model(arguments.model);
  const auto tokenizer = open_tokenizer(arguments.model, *model);
  ChatPrompt chat(tokenizer, arguments.chat_template);
  if (!arguments.ignore_eos) generate.stop_ids = stop_ids_of(*model, *tokenizer);
  // A wrong --template is refused before the first row.
  if (arguments.chat || app.count("--template") > 0) chat.chat_template();
  if (!terminal) return answer_all(arguments, *model, tokenizer, chat);
  // Throws for a model without a template.
  const std::optional<int32_t> turn_end = turn_end_of(*tokenizer, chat.chat_template());
  if (turn_end && !arguments.ignore_eos) generate.stop_ids.push_back(*turn_end);
  return chat_on_terminal({*model, *tokenizer, chat, arguments.text, arguments.model.model});
}

}  // namespace xrun
