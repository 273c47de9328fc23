// A question is a tree: the prompt is its root and each choice a leaf (ops/attention_layout.h). The
// first token of a choice is predicted by the last row of the prompt, each other by the previous
// row.

#include "core/rollout/choices.h"

#include <ATen/core/grad_mode.h>

#include <span>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/model/ops/rope.h"
#include "core/rollout/queued_request.h"

namespace xrun {

namespace {

void check_question(const ModelConfig& config, const ChoiceQuestion& question, size_t number) {
  const std::string name = fmt::format("question {}", number);
  check_prompt(config, question.prompt, name + ": the prompt");
  const std::vector<int64_t>& bytes = question.bytes;
  XRUN_CHECK(bytes.empty() || bytes.size() == question.choices.size(),
             "{}: {} choices have {} byte counts; wanted one per choice, or none", name,
             question.choices.size(), bytes.size());
  for (size_t c = 0; c < question.choices.size(); ++c) {
    const std::string choice = fmt::format("{}, choice {}", name, c + 1);
    // An empty choice has no log-prob to compare.
    check_prompt(config, question.choices[c], choice);
    const size_t length = question.prompt.size() + question.choices[c].size();
    XRUN_CHECK(static_cast<int64_t>(length) <= config.max_length,
               "{} and its prompt have {} tokens, the model's limit is {}", choice, length,
               config.max_length);
    XRUN_CHECK(bytes.empty() || bytes[c] >= 1, "{} has {} bytes, wanted at least 1", choice,
               bytes.empty() ? 0 : bytes[c]);
  }
}

// The trees of several questions, and the loss rows of their choices in order.
class ChoicePack {
 public:
  explicit ChoicePack(const ModelConfig& config) : config_(config) {}

  void add(const ChoiceQuestion& question) {
    // Choices share a prompt only if their lengths have the same RoPE frequencies.
    int64_t prompt = -1, frequencies = -1;
    for (const std::vector<int32_t>& choice : question.choices) {
      const int64_t length = std::ssize(question.prompt) + std::ssize(choice);
      const int64_t own = rope_frequency_class(config_.rope, length);
      if (prompt < 0 || own != frequencies) {
        prompt = add_node(question.prompt, 0, -1, length);
        frequencies = own;
      }
      // Index of the prompt's last token, whose hidden state predicts every choice's first one.
      const int64_t before = boundaries_[static_cast<size_t>(prompt) + 1] - 1;
      const int64_t first = std::ssize(tokens_);
      for (int64_t t = 0; t < std::ssize(choice); ++t) {
        hidden_.push_back(t == 0 ? before : first + t - 1);
        targets_.push_back(choice[static_cast<size_t>(t)]);
      }
      // The last token predicts nothing, so it is not computed.
      add_node(std::span(choice).first(choice.size() - 1), std::ssize(question.prompt), prompt,
               length);
    }
  }

  std::vector<float> logprobs(Model& model) const {
    PackInput input{.tokens = int64_tensor(tokens_),
                    .position_ids = int64_tensor(positions_),
                    .cu_seqlens = boundaries_,
                    .parent = parents_,
                    .rope_length = lengths_};
    const auto there = [&](const std::vector<int64_t>& values) {
      return on_device(int64_tensor(values), model.device());
    };
    const at::Tensor all =
        model.token_logprob(input, there(hidden_), there(targets_)).cpu().contiguous();
    const float* const begin = all.const_data_ptr<float>();
    return {begin, begin + all.numel()};
  }

 private:
  int64_t add_node(std::span<const int32_t> ids, int64_t position, int64_t parent, int64_t length) {
    for (const int32_t id : ids) {
      tokens_.push_back(id);
      positions_.push_back(position++);
    }
    boundaries_.push_back(static_cast<int32_t>(tokens_.size()));
    parents_.push_back(static_cast<int32_t>(parent));
    lengths_.push_back(static_cast<int32_t>(length));
    return std::ssize(parents_) - 1;
  }

  const ModelConfig& config_;
  std::vector<int64_t> tokens_, positions_, hidden_, targets_;
  std::vector<int32_t> boundaries_ = {0}, parents_, lengths_;
};

int64_t token_count(const ChoiceQuestion& question) {
  int64_t tokens = std::ssize(question.prompt);
  for (const std::vector<int32_t>& choice : question.choices) tokens += std::ssize(choice);
  return tokens;
}

}  // namespace

std::vector<std::vector<ChoiceScore>> score_choices(Model& model,
                                                    const std::vector<ChoiceQuestion>& questions,
                                                    const ChoiceOptions& options) {
  for (size_t q = 0; q < questions.size(); ++q) {
    check_question(model.config(), questions[q], q + 1);
  }
  const at::NoGradGuard no_grad;
  std::vector<std::vector<ChoiceScore>> scores(questions.size());
  for (size_t begin = 0, end; begin < questions.size(); begin = end) {
    options.poll ? options.poll() : check_interrupt();
    ChoicePack pack(model.config());
    int64_t tokens = 0;
    // Takes whole questions up to max_tokens, but at least one: a tree is never cut.
    for (end = begin; end < questions.size(); ++end) {
      tokens += token_count(questions[end]);
      if (end > begin && tokens > options.max_tokens) break;
      pack.add(questions[end]);
    }
    const std::vector<float> all = pack.logprobs(model);
    auto next = all.begin();
    for (size_t q = begin; q < end; ++q) {
      for (size_t c = 0; c < questions[q].choices.size(); ++c) {
        const int64_t n = std::ssize(questions[q].choices[c]);
        ChoiceScore& score = scores[q].emplace_back();
        // Loss rows are in the order of questions, choices and tokens.
        score.logprobs.assign(next, next + n);
        next += n;
        for (const float one : score.logprobs) score.sum += static_cast<double>(one);
        score.mean = score.sum / static_cast<double>(n);
        if (!questions[q].bytes.empty())
          score.per_byte = score.sum / static_cast<double>(questions[q].bytes[c]);
      }
    }
  }
  return scores;
}

}  // namespace xrun
