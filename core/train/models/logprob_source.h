#pragma once
// The interface of models that give log-probs of views and batches: policies, references, teachers.

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "core/model/ops/linear_head.h"

namespace xrun {

class Batch;
class Model;
class View;

// A source of log-probs. Another source may answer in its place, as a stand-in does in a dry run;
// callers and subclasses do not notice. Not thread-safe.
class LogprobSource {
 public:
  virtual ~LogprobSource() = default;

  // Lets another source answer all calls below; null: this one answers again.
  void set_replacement(std::shared_ptr<LogprobSource> source) { replacement_ = std::move(source); }
  bool is_replaced() const { return replacement_ != nullptr; }

  // Returns the model that answers; loads its weights if necessary. Throws Error while a source
  // without weights answers.
  Model& model() { return answering().own_model(); }
  // Returns model(), or null while a source without weights answers: there is nothing to sample
  // from.
  Model* find_model() { return is_replaced() ? nullptr : &own_model(); }

  // Returns log p of each trained token of a view, [R] float32, in the view's row order. The first
  // call for a micro-batch runs one forward for all of its views.
  at::Tensor token_logprob(const View& view) { return answering().own_token_logprob(view); }

  // Returns the plain sum over the trained tokens of each segment, [n] float32. A segment without
  // a trained token gives 0.
  at::Tensor logprob(const View& view) { return answering().own_logprob(view); }

  // Returns the outputs of linear_head.h for each trained token of a view, [R] and [R, k], from the
  // hidden states of the step's forward and one product with the vocabulary per call.
  //   target  [R] or [R, M] int64, in place of the trained tokens
  // options.head_mb is ignored. Throws Error for other sizes and for options out of range.
  HeadResult head(const View& view, const HeadOptions& options = {}, const at::Tensor& target = {});

  // Returns the logits of each trained token of a view, [R, V] float32, from a forward for this
  // call alone. For prototyping: nothing limits the memory.
  at::Tensor logits(const View& view) { return answering().own_logits(view); }

  // Returns weight . h for each segment, [n] float32, with h the hidden state of its last token
  // from the step's forward. `weight` gives [1, D] fp32. It is called after the model has loaded,
  // and only by a source that has hidden states.
  using ScoreWeight = std::function<const at::Tensor&()>;
  at::Tensor score(const View& view, const ScoreWeight& weight) {
    return answering().own_score(view, weight);
  }

  // Return token_logprob, logprob and head over all micro-batches of a batch, without gradient, in
  // batch order.
  at::Tensor token_logprob(Batch& batch);  // [R]
  at::Tensor logprob(Batch& batch);        // [n]
  HeadResult head(Batch& batch, const HeadOptions& options = {});

 protected:
  // The answers of this source itself, used while nothing replaces it.
  virtual Model& own_model() = 0;
  virtual at::Tensor own_token_logprob(const View& view) = 0;
  virtual at::Tensor own_logprob(const View& view) = 0;
  virtual HeadResult own_head(const View& view, const HeadOptions& options,
                              const at::Tensor& target) = 0;  // the targets are checked
  virtual at::Tensor own_logits(const View& view) = 0;
  virtual at::Tensor own_score(const View& view, const ScoreWeight& weight) = 0;

 private:
  LogprobSource& answering() { return replacement_ ? *replacement_ : *this; }

  std::shared_ptr<LogprobSource> replacement_;
};

}  // namespace xrun
