// student   prompt                            answer <end>       tail           answer <end>
// teacher   prompt in the teacher's template  answer <its end>   its own tail   answer <its end>
//
// Only the answers are aligned. The tail after a turn is what the teacher's template writes there
// (TurnTail). Companions are made once; subsets of the rollouts find them again by their tokens.

#include "core/rollout/aligned_rollouts.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/align/companion_maker.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/threads.h"
#include "core/rollout/text_sampler.h"
#include "core/text/chat/chat_tokens.h"
#include "core/text/chat/turn_tail.h"

namespace xrun {

namespace {

using RolloutKey = std::pair<int64_t, uint64_t>;  // the row, and a hash of all tokens

RolloutKey key_of(int64_t row, std::span<const int32_t> ids) {
  return {row, hash_u64({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()})};
}

std::vector<SampledCall> calls_from(const Json& calls) {
  std::vector<SampledCall> out;
  for (const Json& call : calls.as_array()) {
    SampledCall& one = out.emplace_back();
    if (const Json* name = call.find("name")) one.name = name->as_string();
    if (const Json* arguments = call.find("arguments")) one.arguments = *arguments;
    if (const Json* id = call.find("id")) one.id = id->as_string();
  }
  return out;
}

// The prompt of a row, in the teacher's template.
struct TeacherPrompt {
  std::string row;  // "pairs.jsonl:17"
  Conversation conversation;
  std::vector<int32_t> ids;
};

// Makes the companion of one rollout.
class AnswerCompanion {
 public:
  AnswerCompanion(const AnswerTeacher& teacher, std::optional<int32_t> turn_end,
                  const TeacherPrompt& prompt)
      : retokenizer_(*teacher.retokenizer),
        turn_end_(turn_end),
        prompt_(prompt),
        tail_(retokenizer_.teacher(), prompt.conversation) {}

  CompanionTokens make(const Rollout& one) {
    out_.ids = prompt_.ids;
    const auto prompt = static_cast<int32_t>(one.prompt_ids->size());
    for (const RolloutTurn& turn : turns_of(one)) {
      const auto begin = static_cast<size_t>(turn.begin);
      const auto ids = std::span(one.ids).subspan(begin, static_cast<size_t>(turn.end) - begin);
      // A turn that was cut off has no end of turn to pair.
      add_answer(ids, prompt + static_cast<int32_t>(turn.begin), turn.finish == "stop");
      if (turn.reply.size() > 0) add_tail(turn);
    }
    cut(retokenizer_.limit());
    return std::move(out_);
  }

 private:
  static std::vector<RolloutTurn> turns_of(const Rollout& one) {
    if (!one.turns.empty()) return one.turns;
    // An answer without an environment is one turn.
    RolloutTurn whole;
    whole.end = std::ssize(one.ids);
    whole.finish = one.finish;
    return {whole};
  }

  void add_answer(std::span<const int32_t> ids, int32_t s, bool ended) {
    AlignedDocument answer = retokenizer_.align_answer(ids, ended ? turn_end_ : std::nullopt);
    const auto t = static_cast<int32_t>(out_.ids.size());
    out_.ids.insert(out_.ids.end(), answer.teacher_ids.begin(), answer.teacher_ids.end());
    const CompanionTokens counted = companion_of(std::move(answer), retokenizer_.teacher());
    out_.wrong += counted.wrong;
    out_.one_sided += counted.one_sided;
    for (const CompanionTokens::Chunk& chunk : counted.chunks) {
      out_.chunks.push_back(
          {chunk.s_begin + s, chunk.s_end + s, chunk.t_begin + t, chunk.t_end + t});
    }
  }

  void add_tail(const RolloutTurn& turn) {
    const std::vector<int32_t> tail = tail_of(turn);
    // The template's tail begins with the end of the turn, which an answer that stopped has
    // already.
    const bool has_end = !tail.empty() && out_.ids.back() == tail.front();
    out_.ids.insert(out_.ids.end(), tail.begin() + (has_end ? 1 : 0), tail.end());
  }

  std::vector<int32_t> tail_of(const RolloutTurn& turn) {
    try {
      return tail_.append(calls_from(turn.calls), turn.reply);
    } catch (const Error& error) {
      throw Error(fmt::format(
          "{}: the teacher cannot read the environment's messages: {}; give align() a template that "
          "can read them",
          prompt_.row, error.what()));
    }
  }

  void cut(int64_t limit) {
    if (limit <= 0 || std::ssize(out_.ids) <= limit) return;
    out_.ids.resize(static_cast<size_t>(limit));
    // A chunk beyond the limit has no rows of the teacher to compare with.
    std::erase_if(out_.chunks, [&](const auto& chunk) { return chunk.t_end > limit; });
  }

  const Retokenizer& retokenizer_;
  std::optional<int32_t> turn_end_;
  const TeacherPrompt& prompt_;
  TurnTail tail_;
  CompanionTokens out_;
};

// The prompts of a batch by row, in the teacher's template.
class TeacherPrompts {
 public:
  TeacherPrompts(const RolloutList& rollouts, const BatchInfo& info, const AnswerTeacher& teacher)
      : teacher_(teacher) {
    XRUN_CHECK(info.conversations || rollouts.empty(),
               "these rollouts do not answer the prompts of a data set, so their conversations are "
               "unknown; sample the prompts of xrun.prompts");
    std::vector<int64_t> rows;
    for (const auto& one : rollouts) rows.push_back(one->row);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    if (rows.empty()) return;
    std::vector<Conversation> read = info.conversations(rows, teacher.retokenizer->student());
    for (size_t i = 0; i < rows.size(); ++i) {
      TeacherPrompt& prompt = by_row_[rows[i]];
      prompt.conversation = std::move(read[i]);
      prompt.conversation.chat_template = teacher.chat_template;
      prompt.row = row_text(info, rows[i]);
      prompt.ids = render(prompt);
    }
  }

  const TeacherPrompt& of(int64_t row) const { return by_row_.at(row); }

 private:
  std::vector<int32_t> render(const TeacherPrompt& prompt) const {
    Json kwargs = prompt.conversation.kwargs;
    // The answer follows, so the prompt ends with the header of the assistant's turn.
    kwargs.set("add_generation_prompt", true);
    try {
      return encode_chat(teacher_.retokenizer->teacher(), *teacher_.chat_template,
                         prompt.conversation.messages, kwargs)
          .ids;
    } catch (const Error& error) {
      throw Error(
          fmt::format("{}: the teacher cannot read this prompt: {}; give align() a template that "
                      "can read it",
                      prompt.row, error.what()));
    }
  }

  const AnswerTeacher& teacher_;
  std::map<int64_t, TeacherPrompt> by_row_;
};

// The companions of a batch of rollouts. They are made together with its packs, so that the packs'
// timer includes them.
class AnswerCompanions : public CompanionSource {
 public:
  AnswerCompanions(const Rollouts& rollouts, AnswerTeacher teacher)
      : rollouts_(rollouts.rollouts()), info_(rollouts.info()), teacher_(std::move(teacher)) {}

  std::vector<CompanionTokens> align(const std::vector<Document>& documents) const override {
    // The first call makes the companions of all rollouts; packs of subsets only look them up.
    std::call_once(made_, [this] { make(); });
    std::vector<CompanionTokens> out;
    for (const Document& document : documents) {
      out.push_back(known_.at(key_of(document.row, document.ids)));
    }
    return out;
  }
  const std::string& fingerprint() const override {
    return teacher_.retokenizer->teacher_fingerprint();
  }

 private:
  void make() const {
    const TeacherPrompts prompts(rollouts_, info_, teacher_);
    const auto turn_end = turn_end_of(teacher_.retokenizer->teacher(), *teacher_.chat_template);
    std::vector<CompanionTokens> made(rollouts_.size());
    for_each_on_threads(rollouts_.size(), teacher_.workers, [&](size_t i) {
      const Rollout& one = *rollouts_[i];
      made[i] = AnswerCompanion(teacher_, turn_end, prompts.of(one.row)).make(one);
    });
    for (size_t i = 0; i < rollouts_.size(); ++i) {
      known_.emplace(key_of(rollouts_[i]->row, whole_ids(*rollouts_[i])), std::move(made[i]));
    }
  }

  RolloutList rollouts_;
  BatchInfo info_;
  AnswerTeacher teacher_;
  mutable std::once_flag made_;
  mutable std::map<RolloutKey, CompanionTokens> known_;
};

}  // namespace

std::shared_ptr<Rollouts> align_rollouts(const Rollouts& rollouts, const AnswerTeacher& teacher) {
  return rollouts.with_chunks({std::make_shared<const AnswerCompanions>(rollouts, teacher)});
}

std::shared_ptr<Rollouts> with_row_chunks(const Rollouts& rollouts) {
  return rollouts.with_chunks({nullptr});
}

}  // namespace xrun
