// Batches, micro-batches and views as recipes see them: fields by name, and the sums between tokens
// [R] and sequences [n].

#include <ATen/core/Tensor.h>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/data_batch.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/bind/rollout/rollouts.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// The view whose fields (row, weight, extra columns) are those of a micro-batch: for pairs the
// chosen side.
View unit_view(MicroBatch& micro) {
  return micro.unit() == Unit::kPair ? micro.chosen() : micro.all();
}

// Pushes a field of a view or batch: a list for an extra column of strings, else a tensor.
template <typename Fields>
int push_field(const Fields& fields, const std::string& name, lua_State* L) {
  if (const auto strings = fields.strings(name)) {
    push(L, *strings);
  } else {
    push(L, fields.field(name));
  }
  return 1;
}

int push_micro_field(MicroBatch& micro, const std::string& name, lua_State* L) {
  const View view = unit_view(micro);
  // "choosen" is a misspelt view rather than a field that nobody assigned.
  const bool slip = !nearest_name(name, {"chosen", "rejected", "all"}).empty();
  // 0 results: the class reports its own names, with the nearest of them.
  return slip && !view.has_field(name) ? 0 : push_field(view, name, L);
}

// Methods of views that a batch lacks, and what gives the same over a batch.
constexpr std::pair<const char*, const char*> kMethodsOfViews[] = {
    {"mean", "batch:sum(x) / batch.length"},
    {"spread", "x:repeat_interleave(batch.length)"},
};

int push_batch_field(Batch& batch, const std::string& name, lua_State* L) {
  if (push_rollout_member(L, batch, name)) return 1;
  for (const auto& [method, instead] : kMethodsOfViews) {
    XRUN_CHECK(name != method || batch.has_field(name),
               "a batch has no method `{}`, only the views of an objective have it; write {}", name,
               instead);
  }
  return push_field(batch, name, L);
}

int set_batch_field(Batch& batch, const std::string& name, lua_State* L) {
  batch.set_field(name, arg<at::Tensor>(L, 3, fmt::format("batch field `{}`", name).c_str()));
  return 1;  // handled
}

const View& reduced_view(const View& view) { return view; }
// A micro-batch reduces over all its sequences, both sides of pairs: x has the rows of micro.all.
View reduced_view(MicroBatch& micro) { return micro.all(); }

template <typename T, at::Tensor (View::*F)(const at::Tensor&) const>
int view_reduce(T& self, lua_State* L) {
  push(L, (reduced_view(self).*F)(arg<at::Tensor>(L, 2, "x")));
  return 1;
}

int push_side(View side, lua_State* L) {
  // A view holds its micro-batch, so it may outlive the table it came from.
  push(L, std::make_shared<View>(std::move(side)));
  return 1;
}

// truncated_ratio(cap, over)
int push_truncated_ratio(const View& view, lua_State* L) {
  const auto cap = arg<double>(L, 2, "cap");
  const std::string over = opt_arg<std::string>(L, 3, "over").value_or("token");
  XRUN_CHECK(over == "token" || over == "mean" || over == "sum",
             "over is \"{}\", wanted \"token\", \"mean\" or \"sum\"", over);
  push(L, view.truncated_ratio(cap, over == "token"  ? View::RatioOver::kTokens
                                    : over == "mean" ? View::RatioOver::kMean
                                                     : View::RatioOver::kSum));
  return 1;
}

constexpr const char* kRatioDoc =
    "Weights of truncated importance sampling for the loss of rollouts, constants: "
    "min(exp(old_logprob - sampler_logprob), cap), [R]. over = \"mean\" or \"sum\": one per "
    "answer, [n], from the mean or the sum of the differences over its tokens. Before the first "
    "update of rollouts that earlier weights sampled, write rollouts.old_logprob = "
    "policy:token_logprob(rollouts).";
constexpr const char* kSumDoc = "[R] -> [n]: the sum over each sequence's trained tokens.";
constexpr const char* kMeanDoc = "[R] -> [n]: the mean over each sequence's trained tokens.";
constexpr const char* kGroupSumDoc =
    "[n] -> [groups]: the sum over the sequences of each group, in the order of losses by group.";
constexpr const char* kChunkSumDoc =
    "[R] -> [chunks]: the sum over the trained tokens of each chunk, in the order of losses by "
    "chunk.";
constexpr const char* kSpreadDoc = "[n] -> [R]: each trained token gets its sequence's value.";

std::string describe_view(const View& view) {
  return fmt::format("View {} (n = {}, R = {})", view.name(), view.size(), view.row_count());
}

std::string describe_micro(const MicroBatch& micro) {
  return fmt::format("Micro {} ({} sequences, {} tokens, {} trained)", micro.index(),
                     micro.segment_count(), micro.token_count(), micro.row_count());
}

std::string describe_batch_handle(const Batch& batch) {
  int64_t pairs = 0;
  for (const auto& micro : batch.micros()) pairs += micro->pair_count();
  return fmt::format("Batch {} of {} ({}{} sequences, {} tokens, {})", batch.schedule_step(),
                     batch.total_steps(), pairs > 0 ? counted(pairs, "pair") + ", " : "",
                     batch.size(), batch.token_count(),
                     counted(std::ssize(batch.micros()), "micro-batch", "es"));
}

// Adds the methods that views and micro-batches share.
template <typename T>
void add_reductions(Class<T>& handle) {
  handle.method("sum", {{"x", "Tensor"}}, {{"Tensor", "[n]"}}, kSumDoc, view_reduce<T, &View::sum>)
      .method("mean", {{"x", "Tensor"}}, {{"Tensor", "[n]"}}, kMeanDoc, view_reduce<T, &View::mean>)
      .method("spread", {{"x", "Tensor"}}, {{"Tensor", "[R]"}}, kSpreadDoc,
              view_reduce<T, &View::spread>)
      .method("group_sum", {{"x", "Tensor"}}, {{"Tensor", "[groups]"}}, kGroupSumDoc,
              view_reduce<T, &View::group_sum>)
      .method("chunk_sum", {{"x", "Tensor"}}, {{"Tensor", "[chunks]"}}, kChunkSumDoc,
              view_reduce<T, &View::chunk_sum>)
      .method("truncated_ratio", {{"cap", "number"}, {"over?", "string"}},
              {{"Tensor", "[R] or [n]"}}, kRatioDoc,
              [](T& self, lua_State* L) { return push_truncated_ratio(reduced_view(self), L); });
}

void register_view(lua_State* L) {
  Class<View> view(
      L, "View",
      "Some sequences of a micro-batch. Fields by name: length, tokens, row, source, pair, "
      "group, weight, extra columns (strings as a list, whole numbers as i64, others as "
      "f32), and what was assigned to the batch.");
  add_reductions(view);
  view.property("size", "number", "Sequences of this view, n.",
                [](View& self, lua_State* L) {
                  push(L, self.size());
                  return 1;
                })
      .property("row_count", "number", "Trained tokens of this view, R.",
                [](View& self, lua_State* L) {
                  push(L, self.row_count());
                  return 1;
                })
      .fallback([](View& self, const std::string& name, lua_State* L) {
        return push_field(self, name, L);
      })
      .tostring(describe_view);
}

void register_micro(lua_State* L) {
  Class<MicroBatch> micro(
      L, "Micro",
      "The argument of an objective: one packed micro-batch. For pairs, p.chosen "
      "and p.rejected are its two views and fields have one value per pair.");
  micro
      .property("chosen", "View", "The chosen side of each pair.",
                [](MicroBatch& self, lua_State* L) { return push_side(self.chosen(), L); })
      .property("rejected", "View", "The rejected side of each pair.",
                [](MicroBatch& self, lua_State* L) { return push_side(self.rejected(), L); })
      .property("all", "View", "Every sequence, both sides of pairs.",
                [](MicroBatch& self, lua_State* L) { return push_side(self.all(), L); })
      .property("size", "number", "Pairs, or sequences where there are none.",
                [](MicroBatch& self, lua_State* L) {
                  push(L, unit_view(self).size());
                  return 1;
                });
  add_reductions(micro);
  micro.fallback(push_micro_field).tostring(describe_micro);
}

void register_batch(lua_State* L) {
  Class<Batch>(L, "Batch",
               "The data of one step, in batch order. Fields as a view's; a tensor assigned to a "
               "field, one value per pair, sequence or trained token, is sliced into the views.")
      .property("step", "number", "Loop bodies of the run done before it.",
                [](Batch& self, lua_State* L) {
                  push(L, self.step());
                  return 1;
                })
      .property("total_steps", "number", "Steps of its loop, the length of the schedule.",
                [](Batch& self, lua_State* L) {
                  push(L, self.total_steps());
                  return 1;
                })
      .property("size", "number", "Sequences, both sides of pairs.",
                [](Batch& self, lua_State* L) {
                  push(L, self.size());
                  return 1;
                })
      .property("micro_count", "number", "Micro-batches.",
                [](Batch& self, lua_State* L) {
                  push(L, static_cast<int64_t>(self.micros().size()));
                  return 1;
                })
      .method("sum", {{"x", "Tensor"}}, {{"Tensor", "[n]"}}, kSumDoc,
              [](Batch& self, lua_State* L) {
                push(L, self.sum(arg<at::Tensor>(L, 2, "x")));
                return 1;
              })
      .method("mismatched", {}, {"Batch"},
              "As many sequences, each prompt with the answer of the sequence before it, the first "
              "with the last one's: unrelated pairs, for KTO's baseline. Not available for pairs "
              "or a single sequence.",
              [](Batch& self, lua_State* L) {
                push(L, mismatched_batch(self));
                return 1;
              })
      .method(
          "set_field", {{"name", "string"}, {"x", "Tensor"}, {"unit?", "string"}}, {},
          "batch.name = x, with the unit of its values: \"pair\", \"sequence\" or \"token\". It is "
          "needed only where the length of x fits two of them.",
          [](Batch& self, lua_State* L) {
            const auto unit = opt_arg<std::string>(L, 4, "unit");
            self.set_field(arg<std::string>(L, 2, "name"), arg<at::Tensor>(L, 3, "x"),
                           unit ? std::optional(unit_of(*unit)) : std::nullopt);
            return 0;
          })
      .method("close", {}, {}, "Frees everything computed on the batch.",
              [](Batch& self, lua_State*) {
                self.close();
                return 0;
              })
      .fallback(push_batch_field, set_batch_field)
      .tostring(describe_batch_handle);
}

}  // namespace

View read_view(lua_State* L, int i) {
  // A micro-batch stands for all of it: policy:logprob(p) needs no p.all.
  if (class_of(L, i) == &class_info<MicroBatch>) return arg<MicroBatch&>(L, i, "view").all();
  return arg<View&>(L, i, "view");
}

void open_view(LuaState& state) {
  register_view(state);
  register_micro(state);
  register_batch(state);
}

}  // namespace xrun
