// xrun render: renders conversations with a chat template to text, ids and mask.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/console/terminal/shown_text.h"
#include "core/data/rows/lost_turns.h"
#include "core/data/rows/messages.h"
#include "core/data/rows/tool_calls.h"
#include "core/text/chat/chat_tokens.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/row_stream.h"

namespace xrun {

namespace {

struct RenderArguments {
  std::string tokenizer;
  std::string chat_template = "auto";
  std::string file;  // "": standard input
  std::string date;
  bool json = false;
};

// The default of --date: the current time.
std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm local{};
  localtime_r(&time, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &local);
  return text;
}

Json number_array(const auto& values) {
  Json::Array out;
  out.reserve(values.size());
  for (const auto value : values) out.emplace_back(static_cast<int64_t>(value));
  return Json(std::move(out));
}

// Returns a hint naming the command for rows that training reads from other columns; "" if there
// are none.
std::string other_columns_hint(const Json& row) {
  for (const char* column :
       {"chosen", "prompt", "completion", "instruction", "conversations", "text"}) {
    if (row.find(column) == nullptr) continue;
    return fmt::format(
        ", which is all that render reads; xrun inspect RECIPE.lua --set data.1.path=FILE shows "
        "how a row with \"{}\" trains",
        column);
  }
  return "";
}

// Renders messages as transformers does, which refuses the same ones; says why in terms of the row.
ChatTokens render_messages(const Json& messages, const Json& kwargs, const Tokenizer& tokenizer,
                           const ChatTemplate& chat_template) {
  try {
    return encode_chat(tokenizer, chat_template, messages, kwargs);
  } catch (const Error& error) {
    if (!messages.is_array()) throw;
    std::string cause = incomplete_call_text(messages);
    if (cause.empty()) cause = null_content_text(messages);
    if (cause.empty()) throw;
    throw Error(fmt::format("{} ({}); training refuses the row too", cause, error.what()));
  }
}

// Renders one row: its messages, with every other key as an argument of the template. Adds what the
// template leaves out, and what training would change in the messages, to `notes`.
ChatTokens render_row(const Json& row, const Tokenizer& tokenizer,
                      const ChatTemplate& chat_template, std::vector<std::string>& notes) {
  XRUN_CHECK(row.is_object(), "the row is {}, wanted an object with \"messages\"", kind_text(row));
  const Json* messages = row.find("messages");
  XRUN_CHECK(messages != nullptr, "the row has no \"messages\"{}", other_columns_hint(row));
  const Json kwargs = template_kwargs_of(row);
  const ChatTokens tokens = render_messages(*messages, kwargs, tokenizer, chat_template);
  Json trained = *messages;
  std::vector<std::string> changes;
  parse_arguments(trained, kwargs, chat_template, /*may_be_broken=*/true, changes);
  for (const std::string& change : changes) {
    notes.push_back("rendered as transformers does; training differs: " + change);
  }
  const bool loses = !lost_turns(*messages, kwargs, chat_template, tokens.rendering).empty();
  note_lost_parts(*messages, kwargs, chat_template, loses, notes);
  return tokens;
}

// Returns the row's line of output; throws Error with the row's file and line.
std::string render_line(const std::string& line, const RowReader& rows, bool json,
                        const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                        RowNotes& printed) {
  const Json row = parse_json(line, rows.name(), rows.line());
  ChatTokens tokens;
  std::vector<std::string> notes;
  // Errors of parse_json() name the row already; these do not.
  try {
    tokens = render_row(row, tokenizer, chat_template, notes);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", rows.location(), error.what()));
  }
  for (const std::string& note : notes) printed.print(rows, note);
  if (!json) return tokens.rendering.text;
  Json out = Json::object();
  out.set("text", tokens.rendering.text);
  out.set("ids", number_array(tokens.ids));
  // null: without generation marks the mask is unknown, not empty.
  out.set("mask", chat_template.marks_generation() ? number_array(tokens.mask) : Json());
  return dump_json(out);
}

// Returns the exit status: 1 if a row was bad, whose error replaces its output.
int render_rows(const RenderArguments& arguments) {
  const auto tokenizer = Tokenizer::load(tokenizer_folder(arguments.tokenizer));
  if (!tokenizer->notice().empty())
    std::fprintf(stderr, "%s\n", shown_text(tokenizer->notice()).c_str());
  const ResolvedTemplate resolved = resolve_template(
      *tokenizer, arguments.chat_template, arguments.date.empty() ? now() : arguments.date, true);
  std::fprintf(stderr, "%s\n", shown_text(resolved.notice).c_str());
  RowReader rows(arguments.file);
  RowWriter out;
  int status = 0;
  RowNotes notes;
  for (std::string line; rows.next(line);) {
    // Outside the try: a damaged tokenizer is not an error of one row.
    tokenizer->finish_loading();
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;  // blank line
    try {
      out.write(
          render_line(line, rows, arguments.json, *tokenizer, *resolved.chat_template, notes));
    } catch (const Error& error) {
      status = 1;
      if (arguments.json) {
        out.write(error_row(error.what()));
      } else {
        std::fprintf(stderr, "xrun: error: %s\n", shown_text(error.what()).c_str());
      }
    }
  }
  out.finish();
  return status;
}

}  // namespace

int command_render(int argc, char** argv) {
  CLI::App app(
      "Renders conversations, one JSON object per line: \"messages\", and every other key (tools, "
      "add_generation_prompt, ...) as an argument of the template",
      "xrun render");
  RenderArguments arguments;
  app.add_option("--tokenizer", arguments.tokenizer,
                 "a tokenizer folder, or a model name as --model takes")
      ->required()
      ->type_name("DIR");
  app.add_option("--template", arguments.chat_template,
                 "a template file or the name of a built-in one; by default the tokenizer's own")
      ->type_name("FILE");
  app.add_option("FILE", arguments.file, "rows; standard input if not given or -");
  app.add_option("--date", arguments.date,
                 "the date of strftime_now, as 2024-07-26; now if not given")
      ->type_name("DATE");
  app.add_flag("--json", arguments.json,
               "write objects with \"text\", \"ids\" and \"mask\" (null without generation marks)");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return render_rows(arguments);
}

}  // namespace xrun
