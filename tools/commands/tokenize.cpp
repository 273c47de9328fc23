// xrun tokenize: text in, token ids and their bytes out. The text is data: what looks like a
// special token stays plain.

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/text/tokenizer.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/row_stream.h"

namespace xrun {

namespace {

struct TokenizeArguments {
  std::string tokenizer;
  std::string file;  // "": standard input
  bool json = false;
  bool specials = false;
  bool count = false;
};

void append_number(std::string& out, int64_t value) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, end);
}

// {"ids":[1,2],"offsets":[[0,1],[1,4]]}
std::string row_of(const Encoding& encoding) {
  std::string out = "{\"ids\":[";
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, encoding.ids[i]);
  }
  out += "],\"offsets\":[";
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    out += i > 0 ? ",[" : "[";
    append_number(out, encoding.offsets[i].begin);
    out += ',';
    append_number(out, encoding.offsets[i].end);
    out += ']';
  }
  return out + "]}";
}

// Returns the "text" of a JSON row. Throws Error that names the place.
std::string text_of(const std::string& line, const RowReader& rows) {
  const Json row = parse_json(line, rows.name(), rows.line());
  const Json* text = row.find("text");
  XRUN_CHECK(row.is_object() && text != nullptr, "{}: wanted an object with the field \"text\"",
             rows.place());
  XRUN_CHECK(text->is_string(), "{}: the field \"text\" is of kind {}, wanted a string",
             rows.place(), text->kind_name());
  return text->as_string();
}

std::string tokenize_row(const Tokenizer& tokenizer, const TokenizeArguments& arguments,
                         const std::string& text) {
  EncodeOptions options;
  options.add_post_processor = arguments.specials;
  const Encoding encoding = tokenizer.encode(text, options);
  return arguments.count ? std::to_string(encoding.ids.size()) : row_of(encoding);
}

// Returns the exit status: 1 if a row was bad, which is said in its place.
int tokenize_rows(const TokenizeArguments& arguments) {
  const auto tokenizer = Tokenizer::load(arguments.tokenizer);
  RowReader rows(arguments.file);
  RowWriter out;
  int status = 0;
  for (std::string line; rows.next(line);) {
    tokenizer->finish_loading();
    if (!arguments.json) {
      out.write(tokenize_row(*tokenizer, arguments, line));
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;  // a blank line is no row
    try {
      out.write(tokenize_row(*tokenizer, arguments, text_of(line, rows)));
    } catch (const Error& error) {
      Json row = Json::object();
      row.set("error", std::string(error.what()));
      out.write(dump_json(row));
      status = 1;
    }
  }
  out.finish();
  return status;
}

}  // namespace

int command_tokenize(int argc, char** argv) {
  CLI::App app("Writes the token ids of each line, with the bytes that each token stands for",
               "xrun tokenize");
  TokenizeArguments arguments;
  app.add_option("--tokenizer", arguments.tokenizer, "folder of the tokenizer")
      ->required()
      ->check(existing_folder());
  app.add_option("FILE", arguments.file, "text, a line a row; standard input if not given or -");
  app.add_flag("--json", arguments.json, "rows are objects with a field \"text\"");
  app.add_flag("--specials", arguments.specials, "add the tokens of the post-processor (BOS, EOS)");
  app.add_flag("--count", arguments.count, "write the number of tokens alone");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return tokenize_rows(arguments);
}

}  // namespace xrun
