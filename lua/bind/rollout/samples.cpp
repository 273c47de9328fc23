// Answers are files of the run, samples/step_0000034.jsonl, one object per prompt. The earliest
// file is the one that later answers are compared with on the console.

#include "lua/bind/rollout/samples.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/philox.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/dist/agreement.h"
#include "core/dist/rank_message.h"
#include "core/dist/ranks.h"
#include "core/model/model.h"
#include "core/model/weights/weight_check.h"
#include "core/rollout/rollout_sampler.h"
#include "core/run/checkpoint.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/data_batch.h"
#include "core/train/models/policy.h"
#include "lua/bind/rollout/environments.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

constexpr size_t kShownBytes = 300;  // of one answer; the file has all of it

Json extra_columns(const DataSet& set, int64_t row) {
  Json extra = Json::object();
  for (const ExtraColumn& column : set.extra_columns()) {
    extra.set(column.name, column.is_number ? Json(set.extra_number(row, column.name))
                                            : Json(set.extra_string(row, column.name)));
  }
  return extra;
}

Sample make_sample(int64_t row, const std::vector<int32_t>& prompt, const TextSample& answer,
                   const Tokenizer& tokenizer, const DataHandle& data) {
  return {.row = row,
          .prompt = tokenizer.decode(prompt, true),
          .text = answer.text,
          .length = std::ssize(answer.generation.ids),
          .finish = answer.reason,
          .extra = extra_columns(data.set, row),
          .prompt_ids = prompt,
          .ids = answer.generation.ids};
}

// For the console, where an answer has one line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() <= kShownBytes) return text;
  size_t end = kShownBytes;
  // Never in the middle of a UTF-8 character.
  while (end > 0 && is_continuation(text[end])) --end;
  return text.substr(0, end) + "...";
}

// The sample's question, else the end of the prompt's text.
std::string headline(const Sample& sample) {
  if (!sample.question.empty()) return one_line(sample.question);
  const std::string& text = sample.prompt;
  // The end of a prompt has the question; its beginning is the same system text every time.
  size_t begin = text.size() > 120 ? text.size() - 120 : 0;
  while (begin < text.size() && is_continuation(text[begin])) ++begin;
  return one_line((begin > 0 ? "..." : "") + text.substr(begin));
}

// The content of the last user turn, without the template's own text; "" if the trace has none.
std::string last_user_text(const RowTrace& trace) {
  if (trace.streams.empty()) return "";
  const RowTrace::Stream& stream = trace.streams.front();
  const auto turn = std::find_if(stream.messages.rbegin(), stream.messages.rend(),
                                 [](const MessageRange& range) { return range.role == "user"; });
  if (turn == stream.messages.rend()) return "";
  std::string text;
  for (const RenderSpan& span : stream.rendering.spans) {
    const uint32_t begin = std::max(span.begin, turn->bytes.begin);
    const uint32_t end = std::min(span.end, turn->bytes.end);
    if (span.origin == Origin::kTemplate || begin >= end) continue;
    const std::string piece = stream.rendering.text.substr(begin, end - begin);
    // Templates print the message's own role in front of its content.
    if (!text.empty() || piece != turn->role) text += piece;
  }
  return text;
}

// Answers by row of the earliest file, and its step; step -1 if there is none.
std::pair<int64_t, std::map<int64_t, std::string>> read_earliest(const std::filesystem::path& dir) {
  const std::vector<StepFile> files = step_files(dir, ".jsonl");
  std::map<int64_t, std::string> answers;
  if (files.empty()) return {-1, answers};
  const auto& [step, path] = files.front();
  const std::string bytes = read_file(path);
  int64_t line = 1;
  for (size_t at = 0; at < bytes.size(); ++line) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const Json sample =
        parse_json(std::string_view(bytes).substr(at, end - at), path.string(), line);
    answers[sample.at("row").as_int()] = sample.at("text").as_string();
    at = end + 1;
  }
  return {step, answers};
}

}  // namespace

TextOptions read_sampling_options(lua_State* L, const Options& given, double temperature,
                                  uint64_t seed) {
  given.check_fields("sampling");
  TextOptions text;
  GenerateOptions& generate = text.generate;
  generate.max_new_tokens = given.get<int64_t>("max_tokens", generate.max_new_tokens);
  generate.sampling = {.temperature = given.get<double>("temperature", temperature),
                       .top_k = given.get<int64_t>("top_k", 0),
                       .top_p = given.get<double>("top_p", 1),
                       .min_p = given.get<double>("min_p", 0),
                       .seed = seed};
  if (const auto own = given.find<int64_t>("seed")) {
    generate.sampling.seed = static_cast<uint64_t>(*own);
  }
  generate.poll = [L] { check_stop(L); };
  if (given.is_string("stop")) {
    text.stop = {given.get<std::string>("stop")};
  } else {
    text.stop = given.get<std::vector<std::string>>("stop", {});
  }
  return text;
}

std::vector<Sample> answer_prompts(Model& model, const Tokenizer& tokenizer, const DataHandle& data,
                                   TextOptions options, Ranks* ranks) {
  const int64_t size = ranks == nullptr ? 1 : ranks->size();
  const int64_t rank = ranks == nullptr ? 0 : ranks->rank();
  std::vector<std::vector<int32_t>> prompts;
  // In turn rather than in blocks: rows of a file are often sorted by length or source.
  for (int64_t i = rank; i < data.set.size(); i += size) {
    prompts.push_back(data.set.prompt_ids(data.set.unit(i)));
    // Draws are keyed by the row, so the number of ranks changes no answer.
    options.generate.prompt_names.push_back(static_cast<uint64_t>(data.set.unit(i)));
  }
  options.generate.stop_ids = stop_ids_of(model, tokenizer);
  const std::vector<std::string> all = gather_results(ranks, "answers", [&] {
    MessageWriter own;
    for (const TextSample& answer : sample_text(model, tokenizer, prompts, options)) {
      own.list(answer.generation.ids).string(answer.text).string(answer.reason);
    }
    return own.take();
  });
  std::vector<Sample> samples(static_cast<size_t>(data.set.size()));
  for (int64_t from = 0; from < size; ++from) {
    MessageReader in(all[static_cast<size_t>(from)]);
    // The same order in which that rank wrote them.
    for (int64_t i = from; i < data.set.size(); i += size) {
      TextSample answer;
      answer.generation.ids = in.list<int32_t>();
      answer.text = in.string();
      answer.reason = in.string();
      const int64_t row = data.set.unit(i);
      samples[static_cast<size_t>(i)] =
          make_sample(row, data.set.prompt_ids(row), answer, tokenizer, data);
    }
  }
  return samples;
}

std::vector<Sample> converse_with_environment(lua_State* L, int i, const SampledConversations& of) {
  const DataHandle& data = of.data;
  std::vector<int64_t> units;
  for (int64_t u = 0; u < std::min(of.count, data.set.size()); ++u) {
    units.push_back(data.set.unit(u));
  }
  if (units.empty()) return {};
  // Every evaluation draws as step 0 does, so that the seed and the row alone decide.
  BatchInfo info;
  info.seed = of.text.generate.sampling.seed;
  info.fold.mode = FoldMode::kNever;
  info.ranks = session_ranks(L);
  // The sampler applies the model's own limit.
  const std::shared_ptr<Batch> prompts =
      data_batch(data.set, *data.extra, units, kNoTokenLimit, std::move(info));
  LuaEnvironment environment(L, i, *prompts);
  const RolloutOptions asked{.samples = 1, .text = of.text, .environment = environment.options()};
  const auto rollouts =
      environment.without_aborted(sample_rollouts(of.policy, of.model, *prompts, asked));
  std::vector<Sample> samples;
  for (const auto& one : rollouts->rollouts()) {
    Sample& sample = samples.emplace_back(Sample{.row = one->row,
                                                 .prompt = one->prompt_text,
                                                 .text = one->text,
                                                 .length = one->sampled_tokens(),
                                                 .finish = one->finish,
                                                 .extra = extra_columns(data.set, one->row),
                                                 .prompt_ids = *one->prompt_ids,
                                                 .ids = one->ids});
    for (const RolloutTurn& turn : one->turns) sample.turns.push_back(turn_json(turn));
    sample.environment_reward = one->environment_reward;
  }
  return samples;
}

std::vector<Sample> random_samples(const Tokenizer& tokenizer, const DataHandle& data,
                                   int64_t count, int64_t max_tokens, uint64_t seed) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < std::min(count, data.set.size()); ++i) {
    const int64_t row = data.set.unit(i);
    const TextSample answer = stand_in_answer(
        tokenizer, max_tokens, philox_u64(seed, kStreamStandIn, static_cast<uint64_t>(row), 0));
    samples.push_back(make_sample(row, data.set.prompt_ids(row), answer, tokenizer, data));
  }
  return samples;
}

void find_questions(std::vector<Sample>& samples, size_t count, const DataHandle& data,
                    const Tokenizer& tokenizer) {
  std::vector<int64_t> rows;
  std::vector<Sample*> unnamed;
  for (size_t i = 0; i < std::min(count, samples.size()); ++i) {
    // A column that the recipe kept is the user's own text and needs no rendering again.
    const Json* prompt = samples[i].extra.find("prompt");
    if (prompt != nullptr && prompt->is_string() && !prompt->as_string().empty()) {
      samples[i].question = prompt->as_string();
      continue;
    }
    rows.push_back(samples[i].row);
    unnamed.push_back(&samples[i]);
  }
  const std::vector<RowTrace> traces = data.set.trace(rows, tokenizer);
  for (size_t i = 0; i < unnamed.size(); ++i) unnamed[i]->question = last_user_text(traces[i]);
}

std::string save_and_show(const std::filesystem::path& dir, int64_t step,
                          const std::vector<Sample>& samples, size_t count) {
  make_dirs(dir);
  std::string lines;
  for (const Sample& sample : samples) {
    Json line(Json::Object{{"row", sample.row},
                           {"prompt", sample.prompt},
                           {"text", sample.text},
                           {"length", sample.length},
                           {"finish", sample.finish},
                           {"extra", sample.extra}});
    if (sample.turns.size() > 0) line.set("turns", sample.turns);
    lines += dump_json(line) + "\n";
  }
  // Before this step's file is written, which a repeated evaluation replaces.
  const auto [first_step, before] = read_earliest(dir);
  write_file_atomic(dir / (checkpoint_name(step) + ".jsonl"), lines);
  std::string text;
  for (size_t i = 0; i < std::min(count, samples.size()); ++i) {
    text += fmt::format("  {}\n", headline(samples[i]));
    const auto found = before.find(samples[i].row);
    if (first_step >= 0 && first_step < step && found != before.end()) {
      text += fmt::format("    step {:<6} {}\n", first_step, one_line(found->second));
    }
    text += fmt::format("    step {:<6} {}\n", step, one_line(samples[i].text));
  }
  return text;
}

}  // namespace xrun
