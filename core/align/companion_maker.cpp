// Documents are independent, so each is aligned whole on one thread.

#include "core/align/companion_maker.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace xrun {

void for_each_on_threads(size_t count, int workers, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t failed = count;
  std::exception_ptr failure;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
        next = count;
      }
    }
  };
  const size_t limit = workers > 0 ? static_cast<size_t>(workers)
                                   : std::max<size_t>(1, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  const size_t more = std::min(limit, count) - std::min<size_t>(1, count);
  try {
    while (threads.size() < more) threads.emplace_back(run);
  } catch (const std::system_error&) {  // the system gives no more threads: fewer do it
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

CompanionTokens companion_of(AlignedDocument document, const Tokenizer& teacher) {
  CompanionTokens out;
  for (const AlignedPair& pair : document.pairs) {
    if (pair.s_begin < 0 || pair.t_begin < 0) {
      ++out.one_sided;
    } else if (pair.correct) {
      out.chunks.push_back({pair.s_begin, pair.s_end, pair.t_begin, pair.t_end});
    } else {
      ++out.wrong;
    }
  }
  out.ids = std::move(document.teacher_ids);
  if (out.ids.empty()) out.ids.push_back(teacher.eos_id().value_or(0));
  return out;
}

TextCompanions::TextCompanions(std::shared_ptr<const TextAligner> aligner, int workers)
    : aligner_(std::move(aligner)), workers_(workers) {}

std::vector<CompanionTokens> TextCompanions::align(const std::vector<Document>& documents) const {
  std::vector<CompanionTokens> out(documents.size());
  for_each_on_threads(documents.size(), workers_, [&](size_t i) {
    out[i] = companion_of(aligner_->align(documents[i].ids), aligner_->teacher());
  });
  return out;
}

}  // namespace xrun
