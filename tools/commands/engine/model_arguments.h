#pragma once
// Shared by score and sample: opens a model and its tokenizer by name, and answers rows, of which
// each may fail by itself.

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/console/terminal/console.h"
#include "core/model/model.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/commands/row_stream.h"

namespace xrun {

struct ModelArguments {
  std::string model;
  std::string dtype;  // "": the checkpoint's own
  std::string file;   // "": standard input
  int threads = 0;    // 0: all
  bool json = false;
  std::filesystem::path dir;  // set by open_model: the model's folder; for an adapter, its base's
};

void add_model_arguments(CLI::App& app, ModelArguments& arguments);

// The folder that --model names, and the one with its weights and tokenizer. For an adapter they
// differ.
struct NamedModelFolders {
  std::filesystem::path named, base;
};

// Returns the folders of a model (model_registry.h), fetching a missing one after a line on
// standard error. `what` is the option that messages name.
NamedModelFolders named_model_folder(const std::string& name, const char* what = "model");

// Returns the type that an option names; nothing for "". Throws UsageError.
std::optional<at::ScalarType> option_type(const std::string& name);

// Loads the model for inference; for an adapter's folder the base with the adapter.
std::shared_ptr<Model> open_model(ModelArguments& arguments);

// Loads the tokenizer of the same folder. Throws Error if its ids do not fit the model.
std::shared_ptr<const Tokenizer> open_tokenizer(const ModelArguments& arguments,
                                                const Model& model);

// Returns the ids of a row's field "ids". Throws Error unless they are in the model's vocabulary.
std::vector<int32_t> row_ids(const Json& value, const ModelConfig& config);

// One input row: its ids, or why it has none.
struct ModelRow {
  std::vector<int32_t> ids;
  std::string error;  // "" if the row is good
};

// Reads rows and passes them to `answer` in groups of about `tokens` tokens, in order. `parse`
// turns a line into ids; its exception becomes the row's error. `answer` returns one output line
// per row of its group. Returns the exit status, 1 if a row was bad.
int answer_rows(
    const ModelArguments& arguments, int64_t tokens,
    const std::function<std::vector<int32_t>(const std::string& line, const RowReader&)>& parse,
    const std::function<std::vector<std::string>(const std::vector<ModelRow>&)>& answer);

// Returns a console on standard error, for progress.
Console& error_console();

// Returns the output of a failed row: error_row(message) or, in plain text, an empty line after
// printing the message on standard error.
std::string error_line(const std::string& message, bool json);

// Returns the shortest decimal that reads back as the same float; the digits of its double would
// mean nothing.
Json float_json(float value);

}  // namespace xrun
