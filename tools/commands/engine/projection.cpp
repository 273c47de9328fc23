// xrun projection: builds vocabulary projections for distillation between tokenizers, imports those
// of NeMo-RL, shows one, and compares two.

#include "core/distill/projection.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/console/terminal/console.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/distill/projection_build.h"
#include "core/distill/projection_import.h"
#include "core/distill/projection_report.h"
#include "core/text/tokenizer/vocabulary_fingerprint.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/model_arguments.h"

namespace xrun {

namespace {

struct ProjectionArguments {
  std::string student, teacher;
  std::string file, other;  // what is written or read; of import and diff the second file
  ProjectionOptions options;
  bool no_reverse = false, no_specials = false, no_exact = false, no_scale_trick = false;
  int64_t examples = 5;
  bool json = false;
};

struct TokenizerPair {
  std::string student_name, teacher_name;
  std::shared_ptr<const Tokenizer> student, teacher;
};

// Returns the last name of a folder's path: the whole path would make equal projections differ.
std::string folder_name(const std::filesystem::path& folder) {
  return absolute_path(folder / "x").parent_path().lexically_normal().filename();
}

TokenizerPair open_pair(const ProjectionArguments& arguments) {
  const auto student = named_model_folder(arguments.student).base,
             teacher = named_model_folder(arguments.teacher).base;
  return {folder_name(student), folder_name(teacher), Tokenizer::load(student),
          Tokenizer::load(teacher)};
}

void print_json(const Json& json) { fmt::print("{}\n", dump_json(json)); }

std::string share_text(int64_t part, int64_t whole) {
  return fmt::format("{} ({:.1f} %)", count_text(part),
                     whole == 0 ? 0.0 : 100.0 * double(part) / double(whole));
}

Json summary_json(const Projection& p, const std::string& file) {
  const ProjectionSummary summary = summary_of(p);
  return Json(Json::Object{{"file", file},
                           {"student", p.student},
                           {"teacher", p.teacher},
                           {"student_vocab", p.student_vocab},
                           {"teacher_vocab", p.teacher_vocab},
                           {"entries", p.entries()},
                           {"exact", summary.exact},
                           {"several", summary.several},
                           {"empty", summary.empty},
                           {"longest", summary.longest},
                           {"teacher_tokens", summary.teacher_tokens},
                           {"made_by", p.made_by}});
}

void print_summary(const Projection& p, const std::string& file) {
  const ProjectionSummary summary = summary_of(p);
  const auto name = [&](const char* side) {
    return shown_text(text_member(p.made_by, side), Blanks::kBreaksMarked);
  };
  fmt::print("{}: {} student tokens x {} teacher tokens\n", shown_text(file),
             count_text(p.student_vocab), count_text(p.teacher_vocab));
  fmt::print("  student         {} {}\n", name("student"), shown_text(p.student));
  fmt::print("  teacher         {} {}\n", name("teacher"), shown_text(p.teacher));
  fmt::print("  entries         {}, at most {} in a row\n", count_text(p.entries()),
             summary.longest);
  fmt::print("  exact rows      {}\n", share_text(summary.exact, p.student_vocab));
  fmt::print("  other rows      {}\n", share_text(summary.several, p.student_vocab));
  fmt::print("  empty rows      {}\n", share_text(summary.empty, p.student_vocab));
  fmt::print("  teacher tokens  {} named by a row\n",
             share_text(summary.teacher_tokens, p.teacher_vocab));
}

// Prints the tokens whose rows are empty. Ids without a piece are unused and left out.
void print_empty_rows(const Projection& p, const TokenizerPair& pair) {
  std::vector<std::string> pieces;
  for (int32_t row = 0; row < p.student_vocab; ++row) {
    const std::string_view piece = pair.student->piece(row);
    if (p.row_size(row) == 0 && !piece.empty()) pieces.emplace_back(piece);
  }
  if (pieces.empty()) return;
  fmt::print("  empty:          {}\n", shown_text(listed(pieces, 8), Blanks::kBreaksMarked));
}

void print_numerals(const Projection& p, const TokenizerPair& pair) {
  TextTable table(
      {"  numerals", "tokens", "exact", "other", "empty", "example"},
      {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft});
  for (const NumeralRow& row : numeral_rows(p, *pair.student)) {
    const std::string example =
        row.example < 0 ? "" : row_text(p, row.example, *pair.student, *pair.teacher);
    table.add({fmt::format("  {}", counted(row.digits, "digit")), count_text(row.tokens),
               count_text(row.exact), count_text(row.several), count_text(row.empty),
               shown_text(example, Blanks::kBreaksMarked)});
  }
  // A table in a file or pipe is not cut to a width.
  const ConsoleTraits traits = console_traits(1);
  fmt::print("\n{}", table.text(traits.terminal ? traits.width : 0));
}

Json numerals_json(const Projection& p, const TokenizerPair& pair) {
  Json list = Json::array();
  for (const NumeralRow& row : numeral_rows(p, *pair.student)) {
    Json item(Json::Object{{"digits", row.digits},
                           {"tokens", row.tokens},
                           {"exact", row.exact},
                           {"several", row.several},
                           {"empty", row.empty}});
    if (row.example >= 0) {
      item.set("example", row_json(p, row.example, *pair.student, *pair.teacher));
    }
    list.push_back(std::move(item));
  }
  return list;
}

void write_and_report(Projection& p, const TokenizerPair& pair, const std::string& out, bool json) {
  // `show` prints these names; the fingerprints decide if a projection fits.
  p.made_by.set("student", pair.student_name);
  p.made_by.set("teacher", pair.teacher_name);
  save_projection(p, out);
  if (json) {
    print_json(summary_json(p, out));
  } else {
    print_summary(p, out);
  }
}

int build(const ProjectionArguments& arguments) {
  const TokenizerPair pair = open_pair(arguments);
  ProjectionOptions options = arguments.options;
  options.reverse = !arguments.no_reverse;
  options.specials = !arguments.no_specials;
  options.exact = !arguments.no_exact;
  options.scale_trick = !arguments.no_scale_trick;
  Projection p = build_projection(*pair.student, *pair.teacher, options);
  write_and_report(p, pair, arguments.file, arguments.json);
  return 0;
}

int import_file(const ProjectionArguments& arguments) {
  const TokenizerPair pair = open_pair(arguments);
  const TorchFile file{std::filesystem::path(arguments.file)};
  ProjectionImport imported = import_projection(file, *pair.student, *pair.teacher);
  // To stderr, so that --json stays one object.
  if (imported.padded_rows > 0) {
    fmt::print(stderr, "xrun projection import: left out {} beyond the student's tokenizer\n",
               counted(imported.padded_rows, "row"));
  }
  write_and_report(imported.projection, pair, arguments.other, arguments.json);
  return 0;
}

int show(const ProjectionArguments& arguments) {
  const std::string& file = arguments.file;
  // Numerals and examples need both tokenizers.
  if (arguments.student.empty() != arguments.teacher.empty()) {
    throw UsageError("xrun projection show: give both --student and --teacher, or neither");
  }
  if (arguments.student.empty()) {
    const Projection p = load_projection(file);
    if (arguments.json) {
      print_json(summary_json(p, file));
    } else {
      print_summary(p, file);
      fmt::print("give --student and --teacher to see numerals and examples\n");
    }
    return 0;
  }
  const TokenizerPair pair = open_pair(arguments);
  const Projection p = load_projection(file, vocabulary_fingerprint(*pair.student),
                                       vocabulary_fingerprint(*pair.teacher));
  const std::vector<int32_t> rows = example_rows(p, arguments.examples);
  if (arguments.json) {
    Json json = summary_json(p, file);
    json.set("numerals", numerals_json(p, pair));
    Json examples = Json::array();
    for (const int32_t row : rows) {
      examples.push_back(row_json(p, row, *pair.student, *pair.teacher));
    }
    json.set("examples", std::move(examples));
    print_json(json);
    return 0;
  }
  print_summary(p, file);
  print_empty_rows(p, pair);
  print_numerals(p, pair);
  if (!rows.empty()) fmt::print("\n");
  for (const int32_t row : rows) {
    fmt::print("  {}\n",
               shown_text(row_text(p, row, *pair.student, *pair.teacher), Blanks::kBreaksMarked));
  }
  return 0;
}

// Returns the status of diff(1): 0 equal, 1 different; an error is a UsageError: 2.
int diff_files(const ProjectionArguments& arguments) {
  const Projection a = from_option([&] { return load_projection(arguments.file); });
  const Projection b = from_option([&] { return load_projection(arguments.other); });
  const ProjectionDifference difference = from_option([&] { return difference_of(a, b); });
  const size_t shown = std::min(difference.rows.size(), size_t(arguments.examples));
  const auto differing = static_cast<int64_t>(difference.rows.size());
  if (arguments.json) {
    Json worst = Json::array();
    for (size_t i = 0; i < shown; ++i) {
      worst.push_back(Json(
          Json::Object{{"id", difference.rows[i].row}, {"distance", difference.rows[i].distance}}));
    }
    print_json(Json(Json::Object{{"differ", differing},
                                 {"same", difference.same},
                                 {"entries", Json(Json::Array{a.entries(), b.entries()})},
                                 {"worst", std::move(worst)}}));
  } else {
    fmt::print("{} of {} rows differ; {} and {} entries\n", count_text(differing),
               count_text(a.student_vocab), count_text(a.entries()), count_text(b.entries()));
    for (size_t i = 0; i < shown; ++i) {
      fmt::print("  row {}: distance {:.4f}\n", difference.rows[i].row,
                 difference.rows[i].distance);
    }
  }
  return differing == 0 ? 0 : 1;
}

void add_tokenizers(CLI::App& command, ProjectionArguments& arguments, bool required) {
  command
      .add_option("--student", arguments.student,
                  "the student's tokenizer: a folder, or a model name as --model takes")
      ->required(required)
      ->type_name("DIR");
  command.add_option("--teacher", arguments.teacher, "the teacher's tokenizer")
      ->required(required)
      ->type_name("DIR");
}

void add_build_options(CLI::App& command, ProjectionArguments& arguments) {
  command.add_option("--top-k", arguments.options.top_k, "entries of a row")
      ->check(whole_number(1))
      ->capture_default_str();
  command
      .add_option("--tokens-to-cut", arguments.options.tokens_to_cut,
                  "tokens that count where several write one token")
      ->check(whole_number(1))
      ->capture_default_str();
  command.add_flag("--no-reverse", arguments.no_reverse,
                   "do not also write the teacher's tokens with the student's");
  command.add_flag("--no-specials", arguments.no_specials, "do not map special tokens");
  command.add_flag("--no-exact", arguments.no_exact,
                   "let a token that both vocabularies have map to other tokens too");
  CLI::Option* nemo = command.add_flag("--nemo", arguments.options.nemo,
                                       "the numbers of NeMo-RL's tools, their defects included");
  command
      .add_flag("--canonical", arguments.options.canonical,
                "with --nemo: compare texts in the form of its aligner (--use-canonicalization)")
      ->needs(nemo);
  command
      .add_option("--prep-top-k", arguments.options.prep_top_k,
                  "with --nemo: entries of a row before it is cut")
      ->check(whole_number(1))
      ->capture_default_str()
      ->needs(nemo);
  command
      .add_flag("--no-scale-trick", arguments.no_scale_trick,
                "with --nemo: do not set the last entry of a row to 0.2")
      ->needs(nemo);
}

}  // namespace

int command_projection(int argc, char** argv) {
  CLI::App app(
      "Makes and examines projections: sparse matrices of student tokens by teacher tokens",
      "xrun projection");
  app.require_subcommand(1);
  ProjectionArguments arguments;
  CLI::App* building = app.add_subcommand("build", "makes a projection from two tokenizers");
  CLI::App* importing = app.add_subcommand("import", "converts a projection of NeMo-RL");
  CLI::App* showing = app.add_subcommand("show", "shows sizes, numerals and examples");
  CLI::App* comparing = app.add_subcommand(
      "diff", "compares two projections; exit status: 0 equal, 1 different, 2 an error");
  add_tokenizers(*building, arguments, true);
  add_tokenizers(*importing, arguments, true);
  add_tokenizers(*showing, arguments, false);
  add_build_options(*building, arguments);
  building->add_option("OUT", arguments.file, "the safetensors file to write")->required();
  importing->add_option("FILE", arguments.file, "the file of torch.save (.pt)")->required();
  importing->add_option("OUT", arguments.other, "the safetensors file to write")->required();
  showing->add_option("FILE", arguments.file, "a projection")->required();
  comparing->add_option("A", arguments.file, "a projection")->required();
  comparing->add_option("B", arguments.other, "another one for the same tokenizers")->required();
  for (CLI::App* command : {showing, comparing}) {
    command->add_option("--examples", arguments.examples, "rows to show")
        ->check(whole_number(0))
        ->capture_default_str();
  }
  for (CLI::App* command : {building, importing, showing, comparing}) {
    command->add_flag("--json", arguments.json, "one object");
  }
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (building->parsed()) return build(arguments);
  if (importing->parsed()) return import_file(arguments);
  return showing->parsed() ? show(arguments) : diff_files(arguments);
}

}  // namespace xrun
