// xrun tokenize: text to token ids and their bytes; with --decode ids to text. Text is data:
// special tokens spelled in it are not interpreted.

#include <CLI/CLI.hpp>
#include <string>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/row_fields.h"
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

// {"ids":[1,2],"offsets":[[0,1],[1,4]]}
std::string row_of(const Encoding& encoding) {
  std::string out = "{\"ids\":";
  append_ids(out, encoding.ids);
  out += ",\"offsets\":[";
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    out += i > 0 ? ",[" : "[";
    append_number(out, encoding.offsets[i].begin);
    out += ',';
    append_number(out, encoding.offsets[i].end);
    out += ']';
  }
  return out + "]}";
}

std::string text_row(const std::string& text) {
  Json row = Json::object();
  row.set("text", text);
  return dump_json(row);
}

Answer answer(const Tokenizer& tokenizer, const TokenizeArguments& arguments,
              const std::string& line, const RowReader& rows) {
  if (arguments.decode) {
    const std::vector<int32_t> ids = ids_field(parse_row(line, rows), rows, "ids");
    for (const int32_t id : ids) {
      XRUN_CHECK(id >= 0 && id < tokenizer.vocab_size(), "{}: id {}, the tokenizer has {} ids",
                 rows.location(), id, tokenizer.vocab_size());
    }
    return {text_row(tokenizer.decode(ids, !arguments.specials))};
  }
  EncodeOptions options;
  options.add_post_processor = arguments.specials;
  const Encoding encoding =
      tokenizer.encode(arguments.json ? text_field(parse_row(line, rows), rows) : line, options);
  return {arguments.count ? std::to_string(encoding.ids.size()) : row_of(encoding),
          encoding.replaced};
}

// Returns the exit status: 1 if a row was bad, whose line of output is its error.
int tokenize_rows(const TokenizeArguments& arguments) {
  const auto tokenizer = Tokenizer::load(tokenizer_folder(arguments.tokenizer));
  if (!tokenizer->notice().empty())
    std::fprintf(stderr, "%s\n", shown_text(tokenizer->notice()).c_str());
  RowReader rows(arguments.file);
  RowWriter out;
  int status = 0;
  uint64_t replaced = 0;       // bytes that were not UTF-8
  uint64_t rows_repaired = 0;  // lines that had some
  for (std::string line; rows.next(line);) {
    // Outside the try: a damaged tokenizer is not an error of one row.
    tokenizer->finish_loading();
    const bool is_json = arguments.json || arguments.decode;
    // A blank line is not a row.
    if (is_json && line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!is_json) note_json_row(line, rows, "is tokenized as text");
    try {
      const Answer row = answer(*tokenizer, arguments, line, rows);
      out.write(row.line);
      replaced += row.replaced;
      rows_repaired += row.replaced > 0;
    } catch (const Error& error) {
      // A line of text is never bad: the error is not the row's.
      if (!is_json) throw;
      out.write(error_row(error.what()));
      status = 1;
    }
  }
  out.finish();
  if (replaced > 0) {
    fmt::print(
        stderr,
        "xrun tokenize: {}: {} of {} {} not UTF-8; each invalid sequence was read as U+FFFD\n",
        shown_text(rows.name()), counted(static_cast<int64_t>(replaced), "byte"),
        counted(static_cast<int64_t>(rows_repaired), "line"), replaced == 1 ? "is" : "are");
  }
  return status;
}

}  // namespace

int command_tokenize(int argc, char** argv) {
  CLI::App app("Writes the token ids of each line, and the bytes that each token covers",
               "xrun tokenize");
  TokenizeArguments arguments;
  app.add_option("--tokenizer", arguments.tokenizer,
                 "a tokenizer folder, or a model name as --model takes")
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
