// xrun.choices and run:choices: accuracy by three scores, against each choice scored on its own.

#include <ATen/core/grad_mode.h>

#include "core/model/model.h"
#include "core/text/chat/chat_tokens.h"
#include "core/train/models/policy.h"
#include "tests/core/model/golden_pack.h"
#include "tests/lua/bind/session_fixture.h"

namespace xrun::choices_binding_test {

class LuaChoices : public SessionTest {
 protected:
  static std::string recipe(const std::string& code) {
    return R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "questions.jsonl" } }, template = "chatml",
  optim = { lr = 1e-2 }, batch = { sequences = 2, max_tokens = 600 }, steps = 1,
}
local policy = xrun.policy(cfg.model)
local set = xrun.choices(cfg.data, policy)
local run = xrun.run(cfg, { policy = policy })
)" + code;
  }
  static Json question(int i) {
    Json choices = Json::array();
    for (int c = 0; c < 2 + i % 3; ++c) {
      choices.push_back(std::string(static_cast<size_t>(1 + (i + 2 * c) % 4),
                                    static_cast<char>('a' + (3 * i + c) % 20)));
    }
    return Json(Json::Object{
        {"prompt", fmt::format("which {} ?", i)}, {"choices", choices}, {"answer", i % 2}});
  }
};

TEST_F(LuaChoices, AccuracyMatchesEachChoiceAloneBehindItsPrompt) {
  const auto policy = Policy::open("tiny");
  const Tokenizer& tokenizer = *policy->tokenizer();
  const auto chat_template = resolve_template(tokenizer, "chatml").chat_template;
  const Json kwargs(Json::Object{{"add_generation_prompt", true}});
  std::string rows;
  double right[3] = {0, 0, 0};
  constexpr int kRows = 24;
  for (int i = 0; i < kRows; ++i) {
    const Json one = question(i);
    rows += dump_json(one) + "\n";
    const Json messages(
        Json::Array{Json(Json::Object{{"role", "user"}, {"content", one.at("prompt")}})});
    const auto prompt = encode_chat(tokenizer, *chat_template, messages, kwargs).ids;
    int best[3] = {0, 0, 0}, c = 0;
    double score[3] = {-1e9, -1e9, -1e9};
    for (const Json& choice : one.at("choices").as_array()) {
      std::vector<int32_t> ids = prompt;
      std::vector<int64_t> hidden, target;
      for (const int32_t id : tokenizer.encode(choice.as_string()).ids) {
        hidden.push_back(std::ssize(ids) - 1);
        target.push_back(id);
        ids.push_back(id);
      }
      const at::NoGradGuard no_grad;
      const double sum =
          policy->model()
              .token_logprob(pack_sequences({ids}), int64_tensor(hidden), int64_tensor(target))
              .sum()
              .item()
              .toDouble();
      const double scores[3] = {sum, sum / static_cast<double>(target.size()),
                                sum / static_cast<double>(choice.as_string().size())};
      for (int k = 0; k < 3; ++k) {
        if (scores[k] <= score[k]) continue;
        score[k] = scores[k];
        best[k] = c;
      }
      ++c;
    }
    for (int k = 0; k < 3; ++k) right[k] += best[k] == one.at("answer").as_int() ? 1.0 : 0.0;
  }
  write_file_atomic("questions.jsonl", rows);
  ASSERT_EQ(run(recipe("run:log(run:choices(policy, set))\n"
                       "run:log(run:choices(policy, set, 'again'))"),
                "r"),
            "");
  const Json logged = parse_json(metrics("r").back(), "metrics");
  const char* const names[3] = {"accuracy", "accuracy_mean", "accuracy_byte"};
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(logged.at(std::string("choices/") + names[k]).as_double(), right[k] / kRows);
    EXPECT_EQ(logged.at(std::string("choices/again/") + names[k]).as_double(), right[k] / kRows);
  }
  EXPECT_NE(right[0], right[1]) << "a long choice has a lower sum";
  // The file has every question; its best choices give the metrics.
  const std::string text = read_file("r/choices/step_0000000.jsonl");
  EXPECT_EQ(read_file("r/choices/again/step_0000000.jsonl"), text);
  const char* const scores[3] = {"sum", "mean", "byte"};
  double best[3] = {0, 0, 0};
  int64_t row = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++row) {
    const Json line =
        parse_json(std::string_view(text).substr(at, text.find('\n', at) - at), "choices");
    const Json one = question(static_cast<int>(row));
    EXPECT_EQ(line.at("row").as_int(), row);
    EXPECT_TRUE(has(line.at("prompt").as_string(), one.at("prompt").as_string()));
    EXPECT_EQ(line.at("answer").as_int(), one.at("answer").as_int());
    const Json::Array& choices = line.at("choices").as_array();
    ASSERT_EQ(choices.size(), one.at("choices").size());
    for (size_t c = 0; c < choices.size(); ++c) {
      EXPECT_EQ(choices[c].at("text"), one.at("choices").as_array()[c]);
      const double sum = choices[c].at("sum").as_double();
      EXPECT_LT(sum, 0);
      EXPECT_DOUBLE_EQ(choices[c].at("mean").as_double(),
                       sum / choices[c].at("tokens").as_double());
      EXPECT_DOUBLE_EQ(choices[c].at("byte").as_double(),
                       sum / static_cast<double>(choices[c].at("text").as_string().size()));
    }
    for (int k = 0; k < 3; ++k) {
      const auto chosen = static_cast<size_t>(line.at("best").at(scores[k]).as_int());
      for (const Json& choice : choices) {
        EXPECT_LE(choice.at(scores[k]).as_double(), choices.at(chosen).at(scores[k]).as_double());
      }
      best[k] += line.at("best").at(scores[k]) == line.at("answer") ? 1.0 : 0.0;
    }
  }
  EXPECT_EQ(row, kRows);
  for (int k = 0; k < 3; ++k) EXPECT_EQ(best[k], right[k]) << scores[k];
}

TEST_F(LuaChoices, NamesStayInsideTheRun) {
  write_file_atomic("questions.jsonl", dump_json(question(0)) + "\n");
  int runs = 0;
  for (const char* name : {"../out", "a/../../out", "/tmp/out", "a//b", ".hidden", "a b", "a/"}) {
    has(run(recipe(fmt::format("run:choices(policy, set, '{}')", name)),
            fmt::format("s{}", ++runs)),
        "cannot be a folder name: use letters");
  }
  EXPECT_EQ(run(recipe("run:choices(policy, set, 'mmlu/physics-1.0')"), "r"), "");
  EXPECT_TRUE(path_exists("r/choices/mmlu/physics-1.0/step_0000000.jsonl"));
}

TEST_F(LuaChoices, AQuestionAboveTheLimitIsRefusedAtOpeningWithTheFix) {
  const Json fits = question(0);
  const Json longer(Json::Object{{"prompt", "which ?"},
                                 {"choices", Json(Json::Array{"a", std::string(3000, 'b')})},
                                 {"answer", 0}});
  write_file_atomic("questions.jsonl", dump_json(fits) + "\n" + dump_json(longer) + "\n");
  const std::string refused = run(recipe("error('opened')"), "r");
  EXPECT_EQ(refused.find("opened"), std::string::npos) << refused;
  has(refused, "questions.jsonl:2: prompt and choice \"bbbbbb");
  has(refused, "the model's limit is ");
  // A prompt that alone fills the model; the fix in the message works.
  const auto policy = Policy::open("tiny");
  const Tokenizer& tokenizer = *policy->tokenizer();
  const auto chat_template = resolve_template(tokenizer, "chatml").chat_template;
  const auto tokens = [&](const std::string& prompt) {
    const Json messages(Json::Array{Json(Json::Object{{"role", "user"}, {"content", prompt}})});
    const Json kwargs(Json::Object{{"add_generation_prompt", true}});
    return std::ssize(encode_chat(tokenizer, *chat_template, messages, kwargs).ids);
  };
  const int64_t limit = policy->model().config().max_length;
  std::string prompt;
  for (std::string longer = "z"; tokens(longer) <= limit; longer += longer.size() % 9 ? "z" : " ") {
    prompt = longer;
    if (tokens(prompt) < limit - 60) longer += " zzzzzzzz";
  }
  const Json full(Json::Object{
      {"prompt", prompt}, {"choices", Json(Json::Array{"a", "a longer choice"})}, {"answer", 0}});
  write_file_atomic("questions.jsonl", dump_json(fits) + "\n" + dump_json(full) + "\n");
  const std::string error = run(recipe(""), "r");
  has(error, "questions.jsonl:2: prompt and choice \"");
  const size_t at = error.find("max_length = ");
  ASSERT_NE(at, std::string::npos) << error;
  const std::string fix = error.substr(at + 13, error.find(' ', at + 13) - at - 13);
  EXPECT_EQ(run(recipe("assert(#set == 1)"), "fixed",
                {.sets = {"max_length=" + fix, "over_length=drop"}}),
            "");
}

TEST_F(LuaChoices, BadRowsAreNamedWithTheirLine) {
  std::string rows = dump_json(question(0)) + "\n";
  rows += R"({"prompt": "a", "choices": ["b"], "answer": 0}
{"prompt": "a", "choices": "b", "answer": 0}
{"prompt": "a", "choices": ["b", ""], "answer": 0}
{"prompt": "a", "choices": ["b", "c"], "answer": 2}
{"prompt": "a", "choices": ["b", "c"], "answer": "d"}
{"prompt": "a", "choices": ["b", "c"]}
{"prompt": "a", "choices": ["b", 3], "answer": "3"}
)";
  write_file_atomic("questions.jsonl", rows);
  std::string text = recipe(
      "assert(#set == 2)\nfor _ in run:steps(set, { prompts = 1 }) do\n"
      "run:log(run:choices(policy, set)) end");
  text.replace(text.find("template ="), 0, "max_bad = 1, ");
  ASSERT_EQ(run(text, "r"), "");
  has(output_,
      "questions.jsonl:2  bad_choices: \"choices\" is [\"b\"], wanted a list of at least two "
      "texts");
  const Json bad =
      parse_json(read_file("r/ledger.json"), "ledger").at("sources").as_array()[0].at("bad");
  const std::vector<std::string> details = {
      "\"choices\" is [\"b\"], wanted a list of at least two texts",
      "\"choices\" is \"b\", wanted a list of at least two texts",
      "a choice is \"\", wanted a text that is not empty",
      "\"answer\" is 2, wanted the index of a choice, 0 to 1, or its text",
      "\"answer\" is \"d\", wanted the index of a choice, 0 to 1, or its text",
      "\"answer\" is missing, wanted the index of a choice, 0 to 1, or its text"};
  ASSERT_EQ(bad.size(), details.size());
  for (size_t i = 0; i < details.size(); ++i) {
    EXPECT_EQ(bad.as_array()[i].at("line").as_int(), static_cast<int64_t>(i) + 2);
    EXPECT_EQ(bad.as_array()[i].at("detail").as_string(), details[i]);
  }
  has(run(recipe("run:choices(policy, xrun.prompts(cfg.data, policy))"), "s",
          {.sets = {"max_bad=1"}}),
      "open the questions with xrun.choices");
}

}  // namespace xrun::choices_binding_test
