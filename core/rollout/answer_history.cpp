// key = XXH3(vocabulary, name, sample, prompt ids).

#include "core/rollout/answer_history.h"

#include <iterator>

#include "core/base/hash.h"

namespace xrun {

namespace {

uint64_t key_of(const AnswerHistory::HistoryPrompt& prompt, int64_t sample) {
  const uint64_t head[] = {static_cast<uint64_t>(prompt.vocab), prompt.name,
                           static_cast<uint64_t>(sample),
                           hash_u64({reinterpret_cast<const char*>(prompt.ids.data()),
                                     prompt.ids.size() * sizeof(int32_t)})};
  return hash_u64({reinterpret_cast<const char*>(head), sizeof head});
}

}  // namespace

std::vector<std::vector<int32_t>> AnswerHistory::drafts(const HistoryPrompt& prompt,
                                                        int64_t samples) const {
  std::vector<std::vector<int32_t>> drafts;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const auto found = answers_.find(key_of(prompt, sample));
    drafts.push_back(found == answers_.end() ? std::vector<int32_t>{} : found->second);
  }
  return drafts;
}

void AnswerHistory::remember(const HistoryPrompt& prompt, int64_t sample,
                             const std::vector<int32_t>& ids) {
  const uint64_t key = key_of(prompt, sample);
  const auto found = answers_.find(key);
  const int64_t before = found == answers_.end() ? 0 : std::ssize(found->second);
  // A full history takes no more answers: a missing draft costs time, never a result.
  if (tokens_ - before + std::ssize(ids) > max_tokens_) return;
  tokens_ += std::ssize(ids) - before;
  answers_[key] = ids;
}

}  // namespace xrun
