// Candidate changes are planned in the order of their cost: first those that only take time
// (head_mb, recompute, smaller micro-batches), then those that train something else (an adapter,
// bf16). The first one that fits is proposed.

#include "core/model/cost/memory_remedy.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr int64_t kSmallHeadMb = 64;
constexpr int64_t kTokenStep = 64;  // granularity of a proposed batch.max_tokens

// Settings that change together; one that has its value already is left out of the text.
struct CandidateChange {
  bool small_head = false, recompute = false, fewer_tokens = false, adapter = false, narrow = false;
};

// In the order of their cost.
constexpr CandidateChange kChanges[] = {
    {.small_head = true},
    {.recompute = true},
    {.small_head = true, .recompute = true},
    {.fewer_tokens = true},
    {.small_head = true, .recompute = true, .fewer_tokens = true},
    {.adapter = true},
    {.adapter = true, .narrow = true},
    {.recompute = true, .adapter = true, .narrow = true},
    {.small_head = true, .recompute = true, .fewer_tokens = true, .adapter = true, .narrow = true},
};

void with_tokens(MemoryShape& shape, int64_t tokens) {
  if (tokens >= shape.tokens) return;
  // The step then has several micro-batches, each with its share of the loss rows.
  shape.several = true;
  shape.items = (shape.items * shape.tokens + tokens - 1) / tokens;
  shape.loss_rows =
      static_cast<int64_t>(static_cast<double>(shape.loss_rows) * static_cast<double>(tokens) /
                           static_cast<double>(shape.tokens)) +
      1;
  shape.tokens = tokens;
}

class ChangeSearch {
 public:
  ChangeSearch(const std::vector<PlannedModel>& models, int64_t longest,
               const std::function<bool(int64_t)>& fits)
      : models_(models), longest_(longest), fits_(fits) {
    for (const PlannedModel& model : models) tokens_ = std::max(tokens_, model.shape.tokens);
  }

  // Returns `change` with the largest micro-batch that fits, if there is one.
  std::optional<MemoryRemedy> first(const CandidateChange& change) const {
    if (!change.fewer_tokens) return fitting(change, tokens_);
    // No unit is split over micro-batches, so the longest one sets the least size. The search goes
    // down by a sixteenth at a time: a plan takes too long to try every size, and a suggestion
    // needs no more precision.
    const int64_t least = (longest_ + kTokenStep - 1) / kTokenStep * kTokenStep;
    for (int64_t tokens = (tokens_ - 1) / kTokenStep * kTokenStep;
         tokens >= std::max(least, kTokenStep);
         tokens -= std::max(kTokenStep, tokens / 16 / kTokenStep * kTokenStep)) {
      if (auto found = fitting(change, tokens)) return found;
    }
    return std::nullopt;
  }

 private:
  std::optional<MemoryRemedy> fitting(const CandidateChange& change, int64_t tokens) const {
    std::string text = text_of(change);
    if (change.fewer_tokens) {
      add_item(text, fmt::format("batch.max_tokens = {}", tokens));
    }
    if (text.empty()) return std::nullopt;
    // bf16 weights may be multiplied in either type, whichever is faster here.
    const int64_t bytes =
        std::max(need(change, tokens, GemmType::kStorage), need(change, tokens, GemmType::kFloat));
    if (!fits_(bytes)) return std::nullopt;
    return MemoryRemedy{std::move(text), bytes};
  }

  int64_t need(const CandidateChange& change, int64_t tokens, GemmType gemm) const {
    std::vector<PlannedModel> changed = models_;
    for (PlannedModel& model : changed) {
      MemoryShape& shape = model.shape;
      // A frozen model has settings of its own, which the change leaves as they are.
      if (shape.frozen) continue;
      if (change.small_head) shape.head_mb = std::min(shape.head_mb, kSmallHeadMb);
      if (change.recompute) shape.recompute = true;
      if (change.adapter && !shape.adapter) shape.adapter = AdapterOptions{};
      if (change.narrow && shape.dtype == c10::ScalarType::Float) {
        shape.dtype = c10::ScalarType::BFloat16;
        shape.gemm = gemm;
      }
      with_tokens(shape, tokens);
    }
    return total_bytes(memory_plan(changed));
  }

  std::string text_of(const CandidateChange& change) const {
    std::string text;
    // Adds a setting that is wanted and has another value in some trained model.
    const auto add = [&](bool wanted, const std::string& setting, const auto& differs) {
      const bool any = std::any_of(models_.begin(), models_.end(), [&](const PlannedModel& model) {
        return !model.shape.frozen && differs(model.shape);
      });
      if (wanted && any) add_item(text, setting);
    };
    add(change.adapter, "lora = { rank = 16 }",
        [](const MemoryShape& shape) { return !shape.adapter; });
    add(change.recompute, "recompute = true",
        [](const MemoryShape& shape) { return !shape.recompute; });
    add(change.narrow, "dtype = \"bf16\"",
        [](const MemoryShape& shape) { return shape.dtype == c10::ScalarType::Float; });
    add(change.small_head, fmt::format("head_mb = {}", kSmallHeadMb),
        [](const MemoryShape& shape) { return shape.head_mb > kSmallHeadMb; });
    return text;
  }

  const std::vector<PlannedModel>& models_;
  int64_t longest_, tokens_ = 0;
  const std::function<bool(int64_t)>& fits_;
};

}  // namespace

std::optional<MemoryRemedy> smallest_remedy(const std::vector<PlannedModel>& models,
                                            int64_t longest,
                                            const std::function<bool(int64_t)>& fits) {
  const ChangeSearch search(models, longest, fits);
  for (const CandidateChange& change : kChanges) {
    if (auto found = search.first(change)) return found;
  }
  return std::nullopt;
}

void check_memory(const std::vector<PlannedModel>& models, int64_t longest, int64_t held,
                  int64_t available) {
  // The plan counts the weights that are loaded already; `available` does not.
  const auto fits = [&](int64_t bytes) { return bytes - held <= available; };
  const auto text_of = [](int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  const std::vector<MemoryKind> plan = memory_plan(models);
  const int64_t need = total_bytes(plan);
  if (available == 0 || fits(need)) return;
  const std::optional<MemoryRemedy> change = smallest_remedy(models, longest, fits);
  throw Error(fmt::format(
      "the run needs about {} ({}), {} are available{}; {}", text_of(need), describe_kinds(plan),
      text_of(available), held > 0 ? " in addition to what is loaded" : "",
      change ? fmt::format("{} makes it about {}", change->text, text_of(change->bytes))
             : "no setting makes it fit: take a smaller model"));
}

}  // namespace xrun
