// xrun score writes the log-probability of every token of a row, given the previous ones.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include "core/base/error.h"
#include "core/console/terminal/progress.h"
#include "core/model/ops/linear_head.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/model_arguments.h"
#include "tools/commands/row_stream.h"

namespace xrun {

namespace {

// Tokens of one forward. It bounds memory and changes no bit of a result.
constexpr int64_t kPackTokens = 4096;

// Returns a tensor over the vector's memory; the vector must outlive it.
at::Tensor int64_view(std::vector<int64_t>& values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kLong);
}

// {"ids":[..],"logprobs":[null,..]}
std::string score_line(const std::vector<int32_t>& ids, const float* logprobs) {
  Json::Array id_array, logprob_array;
  for (size_t t = 0; t < ids.size(); ++t) {
    id_array.emplace_back(int64_t{ids[t]});
    logprob_array.push_back(t == 0 ? Json() : float_json(logprobs[t - 1]));
  }
  return dump_json(Json(Json::Object{{"ids", Json(std::move(id_array))},
                                     {"logprobs", Json(std::move(logprob_array))}}));
}

// One forward over all good rows of the group.
std::vector<std::string> score_group(Model& model, const std::vector<ModelRow>& rows,
                                     double temperature) {
  std::vector<std::vector<int32_t>> sequences;
  std::vector<int64_t> index, target;
  int64_t begin = 0;
  for (const ModelRow& row : rows) {
    sequences.push_back(row.ids);
    // The position before a token predicts it.
    for (size_t t = 1; t < row.ids.size(); ++t) {
      index.push_back(begin + static_cast<int64_t>(t) - 1);
      target.push_back(row.ids[t]);
    }
    begin += static_cast<int64_t>(row.ids.size());
  }
  const at::Tensor hidden = model.forward(pack_sequences(sequences));
  const at::Tensor logprob =
      model.head(hidden, int64_view(index), int64_view(target), {.temperature = temperature})
          .logprob;
  const float* next = logprob.const_data_ptr<float>();
  std::vector<std::string> lines;
  for (const ModelRow& row : rows) {
    lines.push_back(row.error.empty() ? score_line(row.ids, next)
                                      : error_line(row.error, /*json=*/true));
    // A row of n ids has n - 1 log-probs.
    if (!row.ids.empty()) next += row.ids.size() - 1;
  }
  return lines;
}

// Turns rows into ids; loads the tokenizer at the first row that needs it.
class ScoreRows {
 public:
  ScoreRows(const ModelArguments& arguments, const Model& model, bool specials)
      : arguments_(arguments), model_(model), specials_(specials) {}

  std::vector<int32_t> parse(const std::string& line, const RowReader& rows) {
    if (!arguments_.json) note_json_row(line, rows, "is scored as text");
    std::vector<int32_t> ids = arguments_.json ? from_json(line, rows) : from_text(line);
    XRUN_CHECK(static_cast<int64_t>(ids.size()) <= model_.config().max_length,
               "has {} tokens, the model's limit is {}", ids.size(), model_.config().max_length);
    return ids;
  }

 private:
  std::vector<int32_t> from_json(const std::string& line, const RowReader& rows) {
    const Json row = parse_json(line, rows.name(), rows.line());
    if (const Json* ids = row.find("ids")) return row_ids(*ids, model_.config());
    const Json* text = row.find("text");
    XRUN_CHECK(text != nullptr, "wanted an object with the field \"ids\" or \"text\"");
    XRUN_CHECK(text->is_string(), "the field \"text\" has type {}, wanted a string",
               text->kind_name());
    return from_text(text->as_string());
  }

  std::vector<int32_t> from_text(const std::string& text) {
    if (!tokenizer_) tokenizer_ = open_tokenizer(arguments_, model_);
    EncodeOptions options;
    options.add_post_processor = specials_;
    return tokenizer_->encode(text, options).ids;
  }

  const ModelArguments& arguments_;
  const Model& model_;
  bool specials_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace

int command_score(int argc, char** argv) {
  CLI::App app(
      "Writes {\"ids\", \"logprobs\"} for each row: natural logarithms, null for the first "
      "token. Rows are lines of text, or with --json {\"ids\"} or {\"text\"}.",
      "xrun score");
  ModelArguments arguments;
  bool specials = false;
  double temperature = 1;
  add_model_arguments(app, arguments);
  app.add_option("--temperature", temperature,
                 "divides the logits first, as in the log-probs of rollouts")
      ->capture_default_str();
  app.add_flag("--specials", specials, "add the tokens of the post-processor (BOS, EOS) to texts");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  if (!(temperature > 0)) {
    throw UsageError(fmt::format("--temperature is {:g}, wanted a number above 0", temperature));
  }
  const auto model = open_model(arguments);
  const at::NoGradGuard no_grad;
  ScoreRows rows(arguments, *model, specials);
  TaskProgress progress(error_console(), "scoring", "rows");
  int64_t done = 0;
  return answer_rows(
      arguments, kPackTokens,
      [&](const std::string& line, const RowReader& at) { return rows.parse(line, at); },
      [&](const std::vector<ModelRow>& group) {
        progress.update(done += static_cast<int64_t>(group.size()), 0);
        return score_group(*model, group, temperature);
      });
}

}  // namespace xrun
