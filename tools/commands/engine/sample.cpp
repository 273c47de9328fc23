// xrun sample: greedy continuations of prompts, or answers to conversations.

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/console/progress.h"
#include "core/model/generate.h"
#include "core/text/chat_tokens.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/model_arguments.h"

namespace xrun {

namespace {

struct SampleArguments {
  ModelArguments model;
  std::string chat_template = "auto";
  double temperature = 0;
  int64_t max_new_tokens = 128;
  int64_t batch = 32;
  bool chat = false;
};

// Turns rows into prompts.
class SampleRows {
 public:
  SampleRows(const SampleArguments& arguments, const Model& model)
      : arguments_(arguments), tokenizer_(open_tokenizer(arguments.model, model)) {}

  const Tokenizer& tokenizer() const { return *tokenizer_; }

  std::vector<int32_t> parse(const std::string& line, const RowReader& rows) {
    if (!arguments_.model.json) return arguments_.chat ? from_user(line) : from_text(line);
    const Json row = parse_json(line, rows.name(), rows.line());
    if (const Json* messages = row.find("messages")) {
      Json kwargs = Json::object();
      for (const auto& [key, value] : row.as_object()) {
        if (key != "messages") kwargs.set(key, value);
      }
      return from_messages(*messages, std::move(kwargs));
    }
    const Json* prompt = row.find("prompt");
    XRUN_CHECK(prompt != nullptr, "wanted an object with the field \"prompt\" or \"messages\"");
    XRUN_CHECK(prompt->is_string(), "the field \"prompt\" is of kind {}, wanted a string",
               prompt->kind_name());
    return arguments_.chat ? from_user(prompt->as_string()) : from_text(prompt->as_string());
  }

 private:
  std::vector<int32_t> from_text(const std::string& text) {
    std::vector<int32_t> ids = tokenizer_->leading_bos();
    const Encoding encoding = tokenizer_->encode(text);
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    XRUN_CHECK(!ids.empty(), "the prompt is empty; a continuation needs at least one token");
    return ids;
  }

  std::vector<int32_t> from_user(const std::string& text) {
    Json::Object message = {{"role", "user"}, {"content", text}};
    return from_messages(Json(Json::Array{Json(std::move(message))}), Json::object());
  }

  std::vector<int32_t> from_messages(const Json& messages, Json kwargs) {
    if (!chat_template_) {
      const ResolvedTemplate resolved =
          resolve_template(*tokenizer_, arguments_.chat_template, "", /*allow_unmarked=*/true);
      fmt::print(stderr, "{}\n", resolved.notice);
      chat_template_ = resolved.chat_template;
    }
    if (kwargs.find("add_generation_prompt") == nullptr) kwargs.set("add_generation_prompt", true);
    return encode_chat(*tokenizer_, *chat_template_, messages, kwargs).ids;
  }

  const SampleArguments& arguments_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_template_;
};

// One line whatever the text holds: a newline is \n, a carriage return \r, a backslash \\.
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

// {"ids","text","logprobs","finish"}, or the text alone.
std::string answer_line(const Generation& generation, const Tokenizer& tokenizer, bool json) {
  const std::string text = tokenizer.decode(generation.ids, /*skip_special=*/true);
  if (!json) return escaped(text);
  Json::Array ids, logprobs;
  for (const int32_t id : generation.ids) ids.emplace_back(int64_t{id});
  for (const float l : generation.logprobs) logprobs.emplace_back(std::stod(fmt::format("{}", l)));
  return dump_json(Json(Json::Object{{"ids", Json(std::move(ids))},
                                     {"text", text},
                                     {"logprobs", Json(std::move(logprobs))},
                                     {"finish", generation.finish}}));
}

std::vector<std::string> answer_group(Model& model, const Tokenizer& tokenizer,
                                      const SampleArguments& arguments,
                                      const std::vector<ModelRow>& rows, TaskProgress& progress) {
  GenerateOptions options;
  options.progress = [&](int64_t tokens) {
    progress.update(tokens, 0);
    return true;
  };
  options.max_new_tokens = arguments.max_new_tokens;
  options.batch = arguments.batch;
  options.stop_ids = model.config().stop_ids;
  if (options.stop_ids.empty() && tokenizer.eos_id()) options.stop_ids = {*tokenizer.eos_id()};
  std::vector<std::vector<int32_t>> prompts;
  for (const ModelRow& row : rows) {
    if (row.error.empty()) prompts.push_back(row.ids);
  }
  const std::vector<Generation> answers = generate(model, prompts, options);
  std::vector<std::string> lines;
  size_t next = 0;
  for (const ModelRow& row : rows) {
    lines.push_back(row.error.empty()
                        ? answer_line(answers[next++], tokenizer, arguments.model.json)
                        : error_line(row.error, arguments.model.json));
  }
  return lines;
}

}  // namespace

int command_sample(int argc, char** argv) {
  CLI::App app(
      "Continues each row greedily, a line of output for each. Rows are lines of text (questions "
      "with --chat), answered in text where \\n is a newline and \\\\ a backslash; or with --json "
      "{\"prompt\"} or {\"messages\"} -> {\"ids\", \"text\", \"logprobs\", \"finish\"}.",
      "xrun sample");
  SampleArguments arguments;
  add_model_arguments(app, arguments.model);
  app.add_flag("--chat", arguments.chat, "a prompt is a user's message, put through the template");
  app.add_option("--template", arguments.chat_template,
                 "a template file or the name of a built-in one; by default the tokenizer's own");
  app.add_option("--max-new-tokens", arguments.max_new_tokens, "tokens of an answer at most")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--batch", arguments.batch, "rows decoded together")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--temperature", arguments.temperature, "0, greedy, is the only one so far");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (arguments.temperature != 0) {
    throw UsageError(fmt::format("--temperature {}: sampling is greedy so far, only 0 is possible",
                                 arguments.temperature));
  }
  const auto model = open_model(arguments.model);
  SampleRows rows(arguments, *model);
  const int64_t limit = model->config().max_length;
  TaskProgress progress(error_console(), "sampling", "tokens");
  return answer_rows(
      arguments.model, arguments.batch * 256,
      [&](const std::string& line, const RowReader& at) {
        std::vector<int32_t> ids = rows.parse(line, at);
        XRUN_CHECK(static_cast<int64_t>(ids.size()) <= limit,
                   "the prompt has {} tokens, the model's limit is {}", ids.size(), limit);
        return ids;
      },
      [&](const std::vector<ModelRow>& group) {
        return answer_group(*model, rows.tokenizer(), arguments, group, progress);
      });
}

}  // namespace xrun
