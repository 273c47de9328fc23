#pragma once
// Answers of earlier epochs, as drafts of the answers to the same prompts.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace xrun {

// Remembers the latest answer to each (prompt, sample). A draft changes the time of sampling and no
// token (sampler.h), so the history is not part of a run's state: a resumed run begins without one.
// Not thread-safe.
class AnswerHistory {
 public:
  // 32 Mi tokens take 128 MiB.
  explicit AnswerHistory(int64_t max_tokens = int64_t{1} << 25) : max_tokens_(max_tokens) {}

  // Identifies a prompt, or a turn of a conversation.
  struct HistoryPrompt {
    const std::vector<int32_t>& ids;
    uint64_t name;  // its number in draw keys (generate.h)
    int64_t vocab;  // of the model, which must not get drafts with ids of another
  };

  // Returns the latest answer of each sample from 0 to samples - 1, empty where none is remembered.
  std::vector<std::vector<int32_t>> drafts(const HistoryPrompt& prompt, int64_t samples) const;
  // Replaces a sample's answer. One that would exceed max_tokens is not remembered, so that a data
  // set larger than the limit has drafts for its first prompts.
  void remember(const HistoryPrompt& prompt, int64_t sample, const std::vector<int32_t>& ids);

 private:
  int64_t max_tokens_, tokens_ = 0;
  // By a 64-bit hash. If two prompts share one, their drafts are mixed up, which costs only time.
  std::unordered_map<uint64_t, std::vector<int32_t>> answers_;
};

}  // namespace xrun
