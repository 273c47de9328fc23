// Blocks are those of kd_loss; the rows without a chunk follow in blocks without chunks.

#include "core/distill/labelled_kd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/distill/kd_call.h"
#include "core/distill/kd_check.h"
#include "core/distill/labelled_blocks.h"
#include "core/distill/support_set.h"
#include "core/model/ops/head_block.h"
#include "core/model/ops/op.h"

namespace xrun {

namespace {

class LabelledKdFunction : public torch::autograd::Function<LabelledKdFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                const at::Tensor& hidden, const at::Tensor& weight,
                                                const c10::intrusive_ptr<KdCall>& call) {
    at::AutoDispatchBelowADInplaceOrView below;
    SavedRows saved;
    const LabelledKd out = LabelledBlocks(*call, hidden, weight).forward(saved, true);
    // An output that no loss reads then has no gradient at all, and the backward leaves it out.
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({hidden, weight, saved.z, saved.h, saved.lse});
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    if (saved.support) ctx->saved_data["support"] = c10::IValue::make_capsule(saved.support);
    return {out.loss, out.logprob};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("xrun.kd");
    const auto variables = ctx->get_saved_variables();
    const at::Tensor &hidden = variables[0], &weight = variables[1];
    const auto call =
        c10::static_intrusive_pointer_cast<KdCall>(ctx->saved_data["call"].toCapsule());
    SavedRows saved;
    saved.z = variables[2];
    saved.h = variables[3];
    saved.lse = variables[4];
    // If the graph is kept for another backward, the first one has overwritten the logits.
    saved.has_logits = ctx->saved_data.count("overwritten") == 0;
    if (const auto support = ctx->saved_data.find("support"); support != ctx->saved_data.end()) {
      saved.support =
          c10::static_intrusive_pointer_cast<SupportGradients>(support->second.toCapsule());
    }
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dhidden, dweight] = LabelledBlocks(*call, hidden, weight)
                                  .backward(saved, grads[0], grads[1], hidden.size(0),
                                            ctx->needs_input_grad(0), ctx->needs_input_grad(1));
    if (!saved.has_logits) ctx->saved_data["overwritten"] = true;
    if (dhidden.defined()) dhidden = dhidden.to(hidden.scalar_type());
    if (dweight.defined()) dweight = dweight.to(weight.scalar_type());
    return {dhidden, dweight, {}};
  }
};

void check_arguments(const KdSide& student, const UnchunkedRows& rest) {
  XRUN_CHECK(student.weight.is_cpu() && student.weight.scalar_type() != at::kDouble,
             "labelled_kd: the weight is {} on {}, wanted fp32, bf16 or fp16 on the CPU; call "
             "kd_loss and linear_head",
             c10::toString(student.weight.scalar_type()), student.weight.device().str());
  XRUN_CHECK(student.target.defined(), "labelled_kd: student.target is missing");
  check_kd_side({student.hidden, student.weight, rest.index, rest.index, rest.target}, "rest",
                /*chain=*/false);
}

// Adds the rows without a chunk to a call, and runs it.
LabelledKd run_call(const KdSide& student, const UnchunkedRows& rest,
                    const c10::intrusive_ptr<KdCall>& call) {
  const int64_t chunks = std::ssize(call->student_first) - 1;
  const int64_t chunked = call->student_first.back(), rows = chunked + rest.index.size(0);
  call->student_index = at::cat({call->student_index, rest.index});
  call->student_target = at::cat({call->student_target, rest.target});
  for (int64_t begin = chunked; begin < rows; begin += kHeadBlockRows) {
    const int64_t end = std::min(begin + kHeadBlockRows, rows);
    call->blocks.push_back({chunks, chunks, begin, end, 0, 0});
  }
  const at::Tensor &hidden = student.hidden, &weight = student.weight;
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad())) {
    const auto out = LabelledKdFunction::apply(hidden, weight, call);
    return {out[0], out[1]};
  }
  const at::NoGradGuard no_grad;
  SavedRows saved;
  return LabelledBlocks(*call, hidden, weight).forward(saved, false);
}

}  // namespace

bool keeps_support(const KdOptions& options) { return support_form(options).reads_support_alone(); }

LabelledKd labelled_kd(const KdSide& student, const UnchunkedRows& rest,
                       const std::vector<KdSide>& teachers, int64_t chunks,
                       const KdOptions& options, std::shared_ptr<const VocabularyMap> map) {
  check_arguments(student, rest);
  return run_call(student, rest, online_call(student, teachers, chunks, options, std::move(map)));
}

LabelledKd labelled_kd(const KdSide& student, const UnchunkedRows& rest,
                       const TeacherColumns& teacher, int64_t chunks, const KdOptions& options,
                       std::shared_ptr<const VocabularyMap> map) {
  check_arguments(student, rest);
  return run_call(student, rest, cached_call(student, teacher, chunks, options, std::move(map)));
}

}  // namespace xrun
