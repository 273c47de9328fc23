// xrun render: conversations through the tokenizer's chat template, to text, ids and mask.

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/chat_tokens.h"
#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <ctime>
#include <fstream>
#include <iostream>

namespace xrun {

namespace {

struct RenderOptions {
  std::string tokenizer;
  std::string chat_template = "auto";
  std::string input = "-";
  std::string date;
  bool json = false;
};

// What strftime_now reads when nothing pins it: this moment.
std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm local{};
  localtime_r(&time, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &local);
  return text;
}

Json ids_array(const auto& values) {
  Json::Array out;
  out.reserve(values.size());
  for (const auto value : values) out.emplace_back(static_cast<int64_t>(value));
  return Json(std::move(out));
}

// Renders one row: its messages, every other key an argument of the template.
ChatTokens render_row(const Json& row, const Tokenizer& tokenizer,
                      const ChatTemplate& chat_template) {
  XRUN_CHECK(row.is_object(), "the row is {}, wanted an object with \"messages\"", row.kind_name());
  const Json* messages = row.find("messages");
  XRUN_CHECK(messages != nullptr, "the row has no \"messages\"");
  Json kwargs = Json::object();
  for (const auto& [key, value] : row.as_object()) {
    if (key != "messages") kwargs.set(key, value);
  }
  return encode_chat(tokenizer, chat_template, *messages, kwargs);
}

// Returns false if the row was bad; the others still count.
bool write_row(const std::string& line, const std::string& place, int64_t number,
               const RenderOptions& options, const Tokenizer& tokenizer,
               const ChatTemplate& chat_template) {
  Json out = Json::object();
  try {
    const Json row = parse_json(line, place, number);
    const ChatTokens tokens = render_row(row, tokenizer, chat_template);
    if (!options.json) {
      std::cout << tokens.rendering.text << '\n';
      return true;
    }
    out.set("text", tokens.rendering.text);
    out.set("ids", ids_array(tokens.ids));
    out.set("mask", chat_template.marks_generation() ? ids_array(tokens.mask) : Json());
    std::cout << dump_json(out) << '\n';
    return true;
  } catch (const Error& error) {
    std::string message = error.what();
    const std::string at = fmt::format("{}:{}:", place, number);
    if (!message.starts_with(at)) message = at + " " + message;  // a parse error names it already
    out.set("error", message);
    if (options.json) {
      std::cout << dump_json(out) << '\n';
    } else {
      std::cerr << message << '\n';
    }
    return false;
  }
}

int render_all(const RenderOptions& options, std::istream& input, const std::string& place) {
  const auto tokenizer = Tokenizer::load(options.tokenizer);
  const std::string date = options.date.empty() ? now() : options.date;
  const ResolvedTemplate resolved = resolve_template(*tokenizer, options.chat_template, date, true);
  std::cerr << resolved.notice << '\n';
  bool good = true;
  std::string line;
  for (int64_t number = 1; std::getline(input, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    good = write_row(line, place, number, options, *tokenizer, *resolved.chat_template) && good;
  }
  std::cout.flush();
  XRUN_CHECK(std::cout.good(), "the output cannot be written");
  return good ? 0 : 1;
}

}  // namespace

int command_render(int argc, char** argv) {
  RenderOptions options;
  CLI::App app("Renders conversations, one JSON object a line: {\"messages\", \"tools\"?, "
               "add_generation_prompt?, ...}. A bad row gives an error and exit status 1.",
               "xrun render");
  app.add_option("--tokenizer", options.tokenizer, "folder of the tokenizer")->required();
  app.add_option("--template", options.chat_template,
                 "a template file or the name of a built-in one; by default the tokenizer's own");
  app.add_option("FILE", options.input, "rows; - or nothing is standard input");
  app.add_option("--date", options.date, "the date that strftime_now sees, like 2024-07-26");
  app.add_flag("--json", options.json, "one object a line: {\"text\", \"ids\", \"mask\"}");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.input == "-") return render_all(options, std::cin, "stdin");
  std::ifstream file(options.input, std::ios::binary);
  XRUN_CHECK(file.is_open(), "{}: cannot be opened", options.input);
  return render_all(options, file, options.input);
}

}  // namespace xrun
