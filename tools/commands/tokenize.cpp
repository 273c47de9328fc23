// xrun tokenize: text to token ids and their bytes; with --decode ids to text. Text is data:
// special tokens spelled in it are not interpreted.

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/console/terminal/shown_text.h"
#include "core/text/tokenizer/tokenizer.h"
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
  bool decode = false;
};

// The output of a row and the number of invalid UTF-8 bytes in its text.
struct Answer {
  std::string line;
  uint32_t replaced = 0;
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

// Returns a field of a JSON row. Throws Error that names the row.
Json field_of(const std::string& line, const RowReader& rows, const char* name) {
  const Json row = parse_json(line, rows.name(), rows.line());
  const Json* field = row.find(name);
  XRUN_CHECK(row.is_object() && field != nullptr, "{}: wanted an object with the field \"{}\"",
             rows.location(), name);
  return *field;
}

std::string text_of(const std::string& line, const RowReader& rows) {
  const Json text = field_of(line, rows, "text");
  XRUN_CHECK(text.is_string(), "{}: the field \"text\" has type {}, wanted a string",
             rows.location(), text.kind_name());
  return text.as_string();
}

std::vector<int32_t> ids_of(const std::string& line, const RowReader& rows) {
  const Json field = field_of(line, rows, "ids");
  XRUN_CHECK(field.is_array(), "{}: the field \"ids\" has type {}, wanted an array",
             rows.location(), field.kind_name());
  std::vector<int32_t> ids;
  for (const Json& id : field.as_array()) {
    XRUN_CHECK(id.is_int() && id.as_int() >= 0 && id.as_int() <= INT32_MAX,
               "{}: \"ids\"[{}] is {}, wanted an id", rows.location(), ids.size(), dump_json(id));
    ids.push_back(int32_t(id.as_int()));
  }
  return ids;
}

std::string text_row(const std::string& text) {
  Json row = Json::object();
  row.set("text", text);
  return dump_json(row);
}

Answer answer(const Tokenizer& tokenizer, const TokenizeArguments& arguments,
              const std::string& line, const RowReader& rows) {
  if (arguments.decode) {
    return {text_row(tokenizer.decode(ids_of(line, rows), !arguments.specials))};
  }
  EncodeOptions options;
  options.add_post_processor = arguments.specials;
  const Encoding encoding = tokenizer.encode(arguments.json ? text_of(line, rows) : line, options);
  return {arguments.count ? std::to_string(encoding.ids.size()) : row_of(encoding),
          encoding.replaced};
}

// Returns the exit status: 1 if a row was bad; its error is in its place in the output.
int tokenize_rows(const TokenizeArguments& arguments) {
  const auto tokenizer = Tokenizer::load(tokenizer_folder(arguments.tokenizer));
  if (!tokenizer->notice().empty())
    std::fprintf(stderr, "%s\n", shown_text(tokenizer->notice()).c_str());
  RowReader rows(arguments.file);
  RowWriter out;
  int status = 0;
  uint64_t replaced = 0,
           rows_repaired = 0;  // bytes that were not UTF-8, and the lines that had some
  for (std::string line; rows.next(line);) {
    // Outside the try: a damaged tokenizer is not an error of one row.
    tokenizer->finish_loading();
    const bool is_json = arguments.json || arguments.decode;
    // A blank line is not a row.
    if (is_json && line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const Answer row = answer(*tokenizer, arguments, line, rows);
      out.write(row.line);
      replaced += row.replaced;
      rows_repaired += row.replaced > 0;
    } catch (const Error& error) {
      if (!is_json) throw;
      Json row = Json::object();
      row.set("error", std::string(error.what()));
      out.write(dump_json(row));
      status = 1;
    }
  }
  out.finish();
  if (replaced > 0) {
    fmt::print(stderr,
               "xrun tokenize: {}: {} bytes of {} lines are not UTF-8; each broken piece "
               "was read as U+FFFD\n",
               shown_text(rows.name()), replaced, rows_repaired);
  }
  return status;
}

}  // namespace

int command_tokenize(int argc, char** argv) {
  CLI::App app("Writes the token ids of each line, and the bytes that each token covers",
               "xrun tokenize");
  TokenizeArguments arguments;
  app.add_option("--tokenizer", arguments.tokenizer, "its folder, or a name that --model takes")
      ->required()
      ->type_name("DIR");
  app.add_option("FILE", arguments.file,
                 "text, one row per line; standard input if not given or -");
  app.add_flag("--json", arguments.json, "rows are objects with a field \"text\"");
  app.add_flag(
      "--specials", arguments.specials,
      "add the tokens of the post-processor (BOS, EOS); with --decode show special tokens");
  app.add_flag(
      "--decode", arguments.decode,
      "decode instead: rows are objects with a field \"ids\" and become {\"text\"}, without "
      "special tokens unless --specials is given");
  app.add_flag("--count", arguments.count, "write only the number of tokens");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return tokenize_rows(arguments);
}

}  // namespace xrun
