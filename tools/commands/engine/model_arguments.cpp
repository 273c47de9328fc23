// Rows go to the model in groups of similar token counts; output keeps the order of the input.

#include "tools/commands/engine/model_arguments.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "core/base/error.h"
#include "core/console/terminal/shown_text.h"
#include "core/model/weights/adapter_files.h"
#include "core/model/weights/model_registry.h"
#include "tools/commands/command_line.h"

namespace xrun {

void add_model_arguments(CLI::App& app, ModelArguments& arguments) {
  app.add_option(
         "--model", arguments.model,
         "a model folder, that of a PEFT adapter (its base is found by the name in it), or a "
         "name from `xrun models`")
      ->required()
      ->type_name("DIR");
  app.add_option("FILE", arguments.file, "rows; standard input if not given");
  app.add_option("--dtype", arguments.dtype,
                 "fp32, bf16 or fp16; the checkpoint's own if not given")
      ->type_name("TYPE");
  app.add_option("--threads", arguments.threads, "threads to compute with; all if not given")
      ->check(thread_count());
  app.add_flag("--json", arguments.json, "one JSON object per line, in and out");
}

std::optional<at::ScalarType> option_type(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return from_option([&] { return dtype_from_name(name); });
}

NamedModelFolders named_model_folder(const std::string& name, const char* what) {
  const Notice notice = [](const std::string& line) {
    fmt::print(stderr, "xrun: {}\n", shown_text(line));
  };
  // A PEFT folder names its base.
  const std::filesystem::path dir = resolve_model(name, notice, what);
  return {dir, is_adapter(dir) ? resolve_base_model(dir, notice) : dir};
}

std::shared_ptr<Model> open_model(ModelArguments& arguments) {
  const std::optional<at::ScalarType> named = option_type(arguments.dtype);
  warn_of_threads(arguments.threads);
  if (arguments.threads > 0) at::set_num_threads(arguments.threads);
  const NamedModelFolders folders = named_model_folder(arguments.model);
  arguments.dir = folders.base;
  const ModelConfig config = read_model_config(arguments.dir);
  LoadOptions options{.dtype = named ? *named : config.dtype};
  if (folders.named != folders.base) options.adapter = read_adapter(folders.named, config);
  return Model::load(arguments.dir, options);
}

std::shared_ptr<const Tokenizer> open_tokenizer(const ModelArguments& arguments,
                                                const Model& model) {
  auto tokenizer = Tokenizer::load(arguments.dir);
  check_vocabulary_fits(arguments.dir, *tokenizer, model.config().vocab);
  return tokenizer;
}

// The caller adds the location of the row.
std::vector<int32_t> row_ids(const Json& value, const ModelConfig& config) {
  XRUN_CHECK(value.is_array(), "the field \"ids\" has type {}, wanted an array of token ids",
             value.kind_name());
  std::vector<int32_t> ids;
  for (const Json& id : value.as_array()) {
    XRUN_CHECK(id.is_int() && id.as_int() >= 0 && id.as_int() < config.vocab,
               "the field \"ids\" holds {}, wanted whole numbers from 0 to {}: the model's "
               "vocabulary",
               dump_json(id), config.vocab - 1);
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

Console& error_console() {
  static Console console([](std::string_view text) { write_through(stderr, text); },
                         console_traits(STDERR_FILENO));
  return console;
}

// In JSON the error is a line of output, so that lines match the input.
std::string error_line(const std::string& message, bool json) {
  if (!json) {
    fmt::print(stderr, "xrun: error: {}\n", shown_text(message));
    return "";
  }
  return error_row(message);
}

Json float_json(float value) { return Json(std::stod(fmt::format("{}", value))); }

int answer_rows(
    const ModelArguments& arguments, int64_t tokens,
    const std::function<std::vector<int32_t>(const std::string&, const RowReader&)>& parse,
    const std::function<std::vector<std::string>(const std::vector<ModelRow>&)>& answer) {
  RowReader rows(arguments.file);
  RowWriter out;
  int status = 0;
  std::vector<ModelRow> group;
  int64_t waiting = 0;
  const auto flush = [&] {
    for (const std::string& line : answer(group)) out.write(line);
    group.clear();
    waiting = 0;
  };
  for (std::string line; rows.next(line);) {
    const bool blank = line.find_first_not_of(" \t\r") == std::string::npos;
    if (blank && arguments.json) continue;  // no row
    ModelRow row;
    try {
      row.ids = parse(line, rows);
    } catch (const Error& error) {
      row.error = error.what();
      // The parser may have named the row already.
      if (!row.error.starts_with(rows.name())) row.error = rows.location() + ": " + row.error;
      status = 1;
    }
    const auto length = static_cast<int64_t>(row.ids.size());
    // A row above the limit is a separate group.
    if (!group.empty() && waiting + length > tokens) flush();
    waiting += length;
    group.push_back(std::move(row));
  }
  if (!group.empty()) flush();
  out.finish();
  return status;
}

}  // namespace xrun
