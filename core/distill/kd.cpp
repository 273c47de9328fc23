// A block is a run of whole chunks with its logits on both sides. The forward turns a block's
// student logits z into dz, the gradient of each chunk's own loss; with the gradient g_c of the
// result, row r of chunk c adds g_c dz_r W to hidden and (g_c x_r)^T dz_r to the weight. Blocks and
// the order of their sums depend on the chunks alone, so head_mb changes no bit.

#include "core/distill/kd.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "core/distill/kd_blocks.h"
#include "core/model/ops/head_block.h"
#include "core/model/ops/op.h"

namespace xrun {

namespace {

struct KdForward {
  at::Tensor losses;      // [C], on the CPU
  at::Tensor saved_rows;  // [S, V], dz of the first blocks
};

template <class T>
KdForward kd_forward(const KdCall& call, const at::Tensor& hidden, const at::Tensor& weight,
                     bool gradient) {
  const at::ScalarType type = c10::CppTypeToScalarType<T>::value;
  KdBlocks<T> blocks(call, hidden, weight);
  const int64_t vocab = weight.size(0), saved = gradient ? blocks.saved_blocks() : 0;
  const int64_t saved_count = saved > 0 ? call.blocks[saved - 1].student_end : 0;
  KdForward out;
  out.losses = at::empty({std::ssize(call.student_first) - 1}, at::TensorOptions(type));
  out.saved_rows = saved_count > 0 ? block_matrix(saved_count, vocab, type)
                                   : at::empty({0, vocab}, at::TensorOptions(type));
  for (int64_t b = 0; b < std::ssize(call.blocks); ++b) {
    const KdBlock& block = call.blocks[b];
    const int64_t n = block.student_end - block.student;
    const at::Tensor z =
        b < saved ? out.saved_rows.narrow(0, block.student, n) : block_matrix(n, vocab, type);
    blocks.compute(block, z, out.losses.template mutable_data_ptr<T>(), b < saved);
  }
  return out;
}

// Both gradients of z = x w^T summed over blocks of dz, for types and devices that HeadGradients
// does not serve.
class PlainGradients {
 public:
  PlainGradients(const at::Tensor& x, const at::Tensor& w) : x_(x), w_(w) {
    dx_ = at::empty(x.sizes(), x.options());
    dw_ = at::zeros(w.sizes(), w.options());
  }

  void add(const at::Tensor& host_dz, int64_t begin, const at::Tensor& scale) {
    const int64_t n = host_dz.size(0);
    const at::Tensor factor = scale.narrow(0, begin, n).unsqueeze(1);
    const at::Tensor dz = host_dz.to(x_.device());
    dx_.narrow(0, begin, n).copy_(at::mm(dz, w_).mul_(factor));
    dw_.add_(at::mm(dz.t(), x_.narrow(0, begin, n).mul(factor)));
  }

  at::Tensor hidden(const at::Tensor& index, int64_t tokens) const {
    at::Tensor dhidden = at::zeros({tokens, dx_.size(1)}, dx_.options());
    return dhidden.index_add_(0, index.to(dx_.device()), dx_);
  }
  at::Tensor weight() const { return dw_; }

 private:
  at::Tensor x_, w_, dx_, dw_;
};

// grad [C], the gradient of the losses.
template <class T>
std::pair<at::Tensor, at::Tensor> kd_backward(const KdCall& call, const at::Tensor& hidden,
                                              const at::Tensor& weight,
                                              const at::Tensor& saved_rows, const at::Tensor& grad,
                                              bool want_hidden, bool want_weight) {
  const at::ScalarType type = c10::CppTypeToScalarType<T>::value;
  KdBlocks<T> blocks(call, hidden, weight);
  // The factor of a row is its chunk's gradient.
  const at::Tensor scale =
      grad.to(type).cpu().index_select(0, call.student_chunk).to(blocks.x().device());
  at::Tensor losses = at::empty({std::ssize(call.student_first) - 1}, at::TensorOptions(type));
  const auto add_blocks = [&](auto& gradients) {
    for (const KdBlock& block : call.blocks) {
      const int64_t n = block.student_end - block.student;
      const bool saved = block.student_end <= saved_rows.size(0);
      const at::Tensor dz =
          saved ? saved_rows.narrow(0, block.student, n) : block_matrix(n, weight.size(0), type);
      if (!saved) blocks.compute(block, dz, losses.template mutable_data_ptr<T>(), true);
      gradients.add(dz, block.student, scale);
    }
    return std::pair{
        want_hidden ? gradients.hidden(call.student_index, hidden.size(0)) : at::Tensor(),
        want_weight ? gradients.weight() : at::Tensor()};
  };
  count_head_rows(blocks.x(), saved_rows);
  if (type == at::kFloat && blocks.x().is_cpu()) {
    HeadGradients gradients(blocks.x(), blocks.w(), want_hidden, want_weight);
    return add_blocks(gradients);
  }
  PlainGradients gradients(blocks.x(), blocks.w());
  return add_blocks(gradients);
}

class KdFunction : public torch::autograd::Function<KdFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                const at::Tensor& hidden, const at::Tensor& weight,
                                                const c10::intrusive_ptr<KdCall>& call) {
    at::AutoDispatchBelowADInplaceOrView below;
    const bool wide = weight.scalar_type() == at::kDouble;
    const KdForward out = wide ? kd_forward<double>(*call, hidden, weight, true)
                               : kd_forward<float>(*call, hidden, weight, true);
    ctx->save_for_backward({hidden, weight, out.saved_rows});
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return {out.losses.to(weight.device())};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("xrun.kd");
    const auto saved = ctx->get_saved_variables();
    const auto call =
        c10::static_intrusive_pointer_cast<KdCall>(ctx->saved_data["call"].toCapsule());
    const at::Tensor &hidden = saved[0], &weight = saved[1];
    const bool want_hidden = ctx->needs_input_grad(0), want_weight = ctx->needs_input_grad(1);
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dhidden, dweight] = weight.scalar_type() == at::kDouble
                                  ? kd_backward<double>(*call, hidden, weight, saved[2], grads[0],
                                                        want_hidden, want_weight)
                                  : kd_backward<float>(*call, hidden, weight, saved[2], grads[0],
                                                       want_hidden, want_weight);
    if (want_hidden) dhidden = dhidden.to(hidden.scalar_type());
    if (want_weight) dweight = dweight.to(weight.scalar_type());
    return {dhidden, dweight, {}};
  }
};

at::Tensor run_call(const KdSide& student, const c10::intrusive_ptr<KdCall>& call) {
  const at::Tensor &hidden = student.hidden, &weight = student.weight;
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad())) {
    return KdFunction::apply(hidden, weight, call)[0];
  }
  const at::NoGradGuard no_grad;
  const KdForward out = weight.scalar_type() == at::kDouble
                            ? kd_forward<double>(*call, hidden, weight, false)
                            : kd_forward<float>(*call, hidden, weight, false);
  return out.losses.to(weight.device());
}

}  // namespace

at::Tensor kd_loss(const KdSide& student, const KdSide& teacher, int64_t chunks,
                   const KdOptions& options, std::shared_ptr<const VocabularyMap> map) {
  return kd_loss(student, std::vector{teacher}, chunks, options, std::move(map));
}

at::Tensor kd_loss(const KdSide& student, const std::vector<KdSide>& teachers, int64_t chunks,
                   const KdOptions& options, std::shared_ptr<const VocabularyMap> map) {
  return run_call(student, online_call(student, teachers, chunks, options, std::move(map)));
}

at::Tensor kd_loss(const KdSide& student, const TeacherColumns& teacher, int64_t chunks,
                   const KdOptions& options, std::shared_ptr<const VocabularyMap> map) {
  return run_call(student, cached_call(student, teacher, chunks, options, std::move(map)));
}

}  // namespace xrun
