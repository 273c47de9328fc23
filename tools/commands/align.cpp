// xrun align: pairs the tokens of a student and a teacher as spans over the same bytes, for texts
// or given ids; with --report it prints the quality of the alignment instead.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/align/alignment_quality.h"
#include "core/align/dp_align.h"
#include "core/align/token_aligner.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "tools/commands/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/row_fields.h"
#include "tools/commands/row_stream.h"

namespace xrun {

namespace {

struct AlignArguments {
  std::string student, teacher;
  std::string file;  // "": standard input
  bool json = false;
  bool specials = false;
  bool report = false;
  bool dp = false;
  WalkOptions walk;
};

// {"student_ids":[1],"teacher_ids":[2,3],"pairs":[[0,1,0,2,true]]}
std::string aligned_row(const AlignedTokens& aligned) {
  std::string out = "{\"student_ids\":";
  append_ids(out, aligned.student_ids);
  out += ",\"teacher_ids\":";
  append_ids(out, aligned.teacher_ids);
  out += ",\"pairs\":[";
  for (const AlignedPair& pair : aligned.pairs) {
    out += &pair == aligned.pairs.data() ? "[" : ",[";
    for (const int32_t end : {pair.s_begin, pair.s_end, pair.t_begin, pair.t_end}) {
      append_number(out, end);
      out += ',';
    }
    out += pair.correct ? "true]" : "false]";
  }
  out += ']';
  if (aligned.findings.differs_at >= 0) {
    out += ",\"differs_at\":";
    append_number(out, aligned.findings.differs_at);
  }
  return out + "}";
}

// Refuses ids without a piece, which the aligner would take for equal strings and pair as correct.
std::vector<std::string_view> pieces_of(const char* side, const Tokenizer& tokenizer,
                                        const std::vector<int32_t>& ids) {
  std::vector<std::string_view> pieces;
  for (const int32_t id : ids) {
    XRUN_CHECK(id < tokenizer.vocab_size(), "id {} of the {}: its tokenizer has {} ids", id, side,
               tokenizer.vocab_size());
    pieces.push_back(tokenizer.piece(id));
  }
  return pieces;
}

// Loads a tokenizer with all its files, so that a damaged file is not reported as an error of a
// row.
std::shared_ptr<const Tokenizer> load_side(const std::string& name) {
  auto tokenizer = Tokenizer::load(tokenizer_folder(name));
  tokenizer->finish_loading();
  if (!tokenizer->notice().empty()) {
    std::fprintf(stderr, "%s\n", shown_text(tokenizer->notice()).c_str());
  }
  return tokenizer;
}

void print_match(VocabularyMatch match) {
  if (match == VocabularyMatch::kDifferent) return;
  std::fprintf(stderr, "%s: equal ids are the same tokens and pair one by one\n",
               match == VocabularyMatch::kEqual ? "student and teacher have the same vocabulary"
                                                : "one vocabulary extends the other");
}

// Aligns the rows of one input and counts what the user must know.
class RowAligner {
 public:
  RowAligner(const AlignArguments& arguments, std::shared_ptr<const Tokenizer> student,
             std::shared_ptr<const Tokenizer> teacher)
      : arguments_(arguments),
        student_(std::move(student)),
        teacher_(std::move(teacher)),
        aligner_(student_, teacher_, arguments.walk) {
    if (!arguments_.dp) print_match(aligner_.vocabularies());
  }

  // Returns the line of output.
  std::string line(const std::string& line, const RowReader& rows) {
    AlignedTokens aligned = align(line, rows);
    // NeMo-RL's aligner makes no findings.
    if (arguments_.dp) {
      aligned.findings = {};
      aligned.pairs = dp_pairs(aligned, rows);
    }
    // Counted even for --report, which writes no rows.
    quality_.add({rows.line(), aligner_.student(), aligned.student_ids, aligner_.teacher(),
                  aligned.teacher_ids, aligned.pairs, aligned.findings});
    replaced_ += aligned.replaced;
    if (aligned.replaced > 0 && rows_repaired_++ == 0) first_repaired_ = rows.line();
    rows_differ_ += aligned.findings.differs_at >= 0;
    return arguments_.report ? std::string() : aligned_row(aligned);
  }
  std::string report() const {
    return arguments_.json ? dump_json(quality_.json()) + "\n" : quality_.text();
  }
  void print_notices(const std::string& name) const {
    const std::string file = shown_text(name);
    if (replaced_ > 0) {
      fmt::print(
          stderr,
          "xrun align: {}: {} of {} {} not UTF-8, the first in the row of line {}; each invalid "
          "sequence was read as U+FFFD; convert the file to UTF-8\n",
          file, counted(replaced_, "byte"), counted(rows_repaired_, "row"),
          replaced_ == 1 ? "is" : "are", first_repaired_);
    }
    if (rows_differ_ > 0) {
      fmt::print(stderr,
                 "xrun align: {}: the ids of {} spell different texts on the two sides; the tokens "
                 "from the first differing byte on are not aligned\n",
                 file, counted(rows_differ_, "row"));
    }
    if (const auto warning = quality_.warning(name)) {
      fmt::print(stderr, "xrun align: warning: {}: {}\n", file, shown_text(*warning));
    }
  }

 private:
  Alignment dp_pairs(const AlignedTokens& aligned, const RowReader& rows) {
    try {
      return dp_.align(pieces_of("student", *student_, aligned.student_ids),
                       pieces_of("teacher", *teacher_, aligned.teacher_ids));
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", rows.location(), error.what()));
    }
  }
  AlignedTokens align(const std::string& line, const RowReader& rows) const {
    if (!arguments_.json) return aligner_.text(line, arguments_.specials);
    const Json row = parse_row(line, rows);
    const bool has_ids = row.find("student_ids") != nullptr || row.find("teacher_ids") != nullptr;
    XRUN_CHECK(has_ids != (row.find("text") != nullptr),
               "{}: wanted an object with the field \"text\", or with \"student_ids\" and "
               "\"teacher_ids\"{}",
               rows.location(), has_ids ? "; got both" : "");
    if (!has_ids) {
      return aligner_.text(text_field(row, rows), arguments_.specials);
    }
    return aligner_.ids(ids_field(row, rows, "student_ids"), ids_field(row, rows, "teacher_ids"));
  }

  const AlignArguments& arguments_;
  std::shared_ptr<const Tokenizer> student_, teacher_;
  TokenAligner aligner_;
  DpAligner dp_;
  AlignmentQuality quality_;
  int64_t replaced_ = 0, rows_repaired_ = 0, first_repaired_ = 0;
  int64_t rows_differ_ = 0;
};

// Returns the exit status: 1 if a row was bad, whose line of output is its error.
int align_rows(const AlignArguments& arguments) {
  // Loaded before the first row is read, so that their errors are not a row's.
  RowAligner aligned(arguments, load_side(arguments.student), load_side(arguments.teacher));
  // A report is about rows as training reads them; otherwise each line of text has one of output.
  RowReader rows(arguments.file,
                 arguments.report && !arguments.json ? TextRows::kDocuments : TextRows::kLines);
  RowWriter out;
  int status = 0;
  for (std::string line; rows.next(line);) {
    // A blank line is not a row.
    if (arguments.json && line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!arguments.json) note_json_row(line, rows, "is aligned as text");
    try {
      const std::string row = aligned.line(line, rows);
      if (!arguments.report) out.write(row);
    } catch (const Error& error) {
      // Only NeMo-RL's aligner refuses a line of text, so any other error is not the row's.
      if (!arguments.json && !arguments.dp) throw;
      status = 1;
      if (arguments.report) {
        std::fprintf(stderr, "xrun: error: %s\n", shown_text(error.what()).c_str());
      } else {
        out.write(error_row(error.what()));
      }
    }
  }
  out.finish();
  XRUN_CHECK(!arguments.report || rows.line() > 0, "{}: is empty; a report needs a text",
             rows.name());
  if (arguments.report) {
    const std::string report = aligned.report();
    std::fputs(arguments.json ? report.c_str() : shown_text(report).c_str(), stdout);
  }
  aligned.print_notices(rows.name());
  return status;
}

}  // namespace

int command_align(int argc, char** argv) {
  CLI::App app(
      "Aligns the tokens of two tokenizers: for each line, both sides' ids and the pairs of spans "
      "over the same bytes, [student begin, end, teacher begin, end, correct]; a token without a "
      "partner has [-1,-1] on the other side",
      "xrun align");
  AlignArguments arguments;
  app.add_option("--student", arguments.student,
                 "a tokenizer folder, or a model name as --model takes")
      ->required()
      ->type_name("DIR");
  app.add_option("--teacher", arguments.teacher,
                 "a tokenizer folder, or a model name as --model takes")
      ->required()
      ->type_name("DIR");
  app.add_option(
      "FILE", arguments.file,
      "text, one row per line; standard input if not given or -; with --report the rows of a "
      ".txt file are between blank lines, as training reads them");
  app.add_flag(
      "--json", arguments.json,
      "rows are objects with a field \"text\", or with \"student_ids\" and \"teacher_ids\"; "
      "with --report, write one object");
  app.add_flag("--specials", arguments.specials,
               "add the tokens of the post-processors (BOS, EOS) to texts");
  app.add_flag("--report", arguments.report,
               "write the quality instead of pairs: coverage, shapes of pairs, the worst examples");
  CLI::Option* const max_span =
      app.add_option("--max-span", arguments.walk.max_span,
                     "a pair of more tokens than this on a side is not correct")
          ->check(whole_number(1))
          ->type_name("N");
  CLI::Option* const no_roles = app.add_flag_callback(
      "--no-roles", [&] { arguments.walk.pair_specials = false; },
      "give special tokens no partner, instead of the other side's token of the same role");
  app.add_flag("--dp", arguments.dp,
               "give the pairs of NeMo-RL's string aligner, to compare with its runs; its wrong "
               "pairs and orphans may hold several tokens")
      ->excludes(max_span)
      ->excludes(no_roles);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return align_rows(arguments);
}

}  // namespace xrun
