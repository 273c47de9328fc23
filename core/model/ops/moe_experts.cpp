// For a row r of expert e, with x_r the row's token:
//   a = silu(W_g x) * (W_u x);  y_t = sum of weight_r (W_d a_r) over the token's rows
// Backward, with dy_r the gradient of the row's token:
//   da' = W_d^T dy_r;  dweight_r = <da', a_r>;  da = weight_r da';  dW_d = (weight dy)^T a
//   [dg, du] = swiglu'(da);  dW_gu = [dg, du]^T x;  dx_r = [dg, du] W_gu

#include "core/model/ops/moe_experts.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/base/error.h"
#include "core/model/ops/matrix_product.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/ops/op.h"
#include "core/model/ops/swiglu.h"

namespace xrun {

namespace {

// The experts of one call; sizes are checked against x and the routing.
struct Experts {
  at::Tensor gate_up, down;     // contiguous
  int64_t count, width, inner;  // E, D, I
  ExpertRows rows;
  GemmType gemm;

  at::Tensor gate(int64_t e) const { return gate_up[e].narrow(0, 0, inner); }
  at::Tensor up(int64_t e) const { return gate_up[e].narrow(0, inner, inner); }

  // Calls f(expert, first row, number of rows) for every expert that has rows.
  template <class F>
  void each(F f) const {
    for (int64_t e = 0; e < count; ++e) {
      const int64_t first = rows.begin[static_cast<size_t>(e)];
      const int64_t n = rows.begin[static_cast<size_t>(e) + 1] - first;
      if (n > 0) f(e, first, n);
    }
  }
};

// Throws Error for an index outside the experts, which would write out of bounds.
void check_expert_index(const at::Tensor& index, int64_t experts) {
  const at::Tensor dense = index.contiguous();
  const int64_t* const expert = dense.const_data_ptr<int64_t>();
  for (int64_t s = 0; s < index.numel(); ++s) {
    XRUN_CHECK(expert[s] >= 0 && expert[s] < experts,
               "moe_experts: slot {} chose expert {}, there are {}", s, expert[s], experts);
  }
}

Experts checked_experts(const at::Tensor& x, const at::Tensor& index, const at::Tensor& weight,
                        const at::Tensor& gate_up, const at::Tensor& down, bool upcast) {
  constexpr const char* kOp = "moe_experts";
  check_floating(kOp, "x", x);
  check_type(kOp, "index", index, at::kLong);
  check_type(kOp, "weight", weight, x.scalar_type());
  check_type(kOp, "gate_up", gate_up, x.scalar_type());
  check_type(kOp, "down", down, x.scalar_type());
  XRUN_CHECK(x.dim() == 2 && index.dim() == 2 && gate_up.dim() == 3 && down.dim() == 3,
             "moe_experts: x is [{}], index [{}], gate_up [{}], down [{}]; wanted [T, D], [T, k], "
             "[E, 2 I, D] and [E, D, I]",
             fmt::join(x.sizes(), ", "), fmt::join(index.sizes(), ", "),
             fmt::join(gate_up.sizes(), ", "), fmt::join(down.sizes(), ", "));
  const int64_t E = down.size(0), D = x.size(1), I = down.size(2);
  XRUN_CHECK(E > 0 && D > 0 && I > 0, "moe_experts: down is [{}], no size may be 0",
             fmt::join(down.sizes(), ", "));
  check_sizes(kOp, "index", index, {x.size(0), index.size(1)});
  check_sizes(kOp, "weight", weight, index.sizes());
  check_sizes(kOp, "gate_up", gate_up, {E, 2 * I, D});
  check_sizes(kOp, "down", down, {E, D, I});
  check_expert_index(index, E);
  return {gate_up.contiguous(),
          down.contiguous(),
          E,
          D,
          I,
          expert_rows(index, E),
          upcast && x.scalar_type() != at::kDouble ? GemmType::kFloat : GemmType::kStorage};
}

// Returns the routing's weights in the order of the sorted rows.
at::Tensor weight_by_row(const at::Tensor& weight, const ExpertRows& rows) {
  return weight.flatten().index_select(0, rows.slot);
}

// y, and gate and up by row [T k, I] for the backward.
using MoeForward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// The experts run one after the other, each on all cores.
MoeForward moe_experts_cpu(const at::Tensor& x, const at::Tensor& index, const at::Tensor& weight,
                           const at::Tensor& gate_up, const at::Tensor& down, bool upcast) {
  const Experts experts = checked_experts(x, index, weight, gate_up, down, upcast);
  // Rows sorted by expert: each expert's tokens are one dense matrix [n, D].
  const at::Tensor in = at::index_select(x, 0, experts.rows.token);
  const int64_t rows = in.size(0);
  // in, out [T k, D]; gate, up, a [T k, I].
  const at::Tensor gate = at::empty({rows, experts.inner}, x.options());
  const at::Tensor up = at::empty_like(gate);
  experts.each([&](int64_t e, int64_t first, int64_t n) {
    const at::Tensor own = in.narrow(0, first, n);
    multiply_rows_into(gate.narrow(0, first, n), own, experts.gate(e), experts.gemm);
    multiply_rows_into(up.narrow(0, first, n), own, experts.up(e), experts.gemm);
  });
  const at::Tensor a = swiglu(gate, up);
  const at::Tensor out = at::empty_like(in);
  experts.each([&](int64_t e, int64_t first, int64_t n) {
    multiply_rows_into(out.narrow(0, first, n), a.narrow(0, first, n), experts.down[e],
                       experts.gemm);
  });
  return {sum_of_rows(out, weight_by_row(weight, experts.rows), experts.rows), gate, up};
}

// dx, dweight, dgate_up, ddown; undefined if not wanted.
using MoeBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Calls the op itself, so that it runs on the device of its operands.
std::tuple<at::Tensor, at::Tensor> swiglu_gradient(const at::Tensor& grad, const at::Tensor& gate,
                                                   const at::Tensor& up) {
  using Signature =
      std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&);
  static const auto op = find_op<Signature>("xrun::swiglu_backward");
  return op.call(grad, gate, up);
}

// Returns values by row in the order of the routing's slots.
at::Tensor by_slot(const at::Tensor& rows_weight, const ExpertRows& rows, at::IntArrayRef sizes) {
  return at::empty_like(rows_weight).index_copy_(0, rows.slot, rows_weight).view(sizes);
}

MoeBackward moe_experts_backward_cpu(const at::Tensor& grad, const at::Tensor& x,
                                     const at::Tensor& index, const at::Tensor& weight,
                                     const at::Tensor& gate_up, const at::Tensor& down,
                                     const at::Tensor& gate, const at::Tensor& up, bool upcast,
                                     bool x_wanted, bool weight_wanted, bool experts_wanted) {
  const Experts experts = checked_experts(x, index, weight, gate_up, down, upcast);
  const int64_t rows = index.numel();
  check_type("moe_experts", "grad", grad, x.scalar_type());
  check_sizes("moe_experts", "grad", grad, x.sizes());
  for (const at::Tensor& saved : {gate, up}) {
    check_type("moe_experts", "gate or up", saved, x.scalar_type());
    check_sizes("moe_experts", "gate or up", saved, {rows, experts.inner});
  }
  // dy is multiplied by the weights only after da' has been computed, and is reused for dx at the
  // end, so that this backward has only two of its largest buffers, [T k, D].
  at::Tensor dy = at::index_select(grad, 0, experts.rows.token);
  const at::Tensor scale = weight_by_row(weight, experts.rows).unsqueeze(1);
  // Recomputed, since saving it would take [T k, I] more per layer.
  const at::Tensor a = swiglu(gate, up);
  at::Tensor da = at::empty_like(a);
  experts.each([&](int64_t e, int64_t first, int64_t n) {
    product_into(da.narrow(0, first, n), dy.narrow(0, first, n), experts.down[e], experts.gemm);
  });
  MoeBackward result;
  if (weight_wanted) {
    // dweight_r = <da', a_r> = <dy_r, W_d a_r>: the down projection need not run again.
    const at::Tensor inner = da.to(wide_type(da)).mul(a).sum(1).to(x.scalar_type());
    std::get<1>(result) = by_slot(inner, experts.rows, index.sizes());
  }
  da.mul_(scale);
  const auto [dgate, dup] = swiglu_gradient(da, gate, up);
  // [T k, 2 I], in the order of gate_up's rows: one product gives the gradient of each.
  const at::Tensor both = at::cat({dgate, dup}, 1);
  if (experts_wanted) {
    // da' was the last to read dy unweighted.
    dy.mul_(scale);
    const at::Tensor in = at::index_select(x, 0, experts.rows.token);
    // An expert without rows keeps a gradient of 0.
    at::Tensor dgate_up = at::zeros_like(experts.gate_up), ddown = at::zeros_like(experts.down);
    experts.each([&](int64_t e, int64_t first, int64_t n) {
      product_into(ddown[e], dy.narrow(0, first, n).t(), a.narrow(0, first, n), experts.gemm);
      product_into(dgate_up[e], both.narrow(0, first, n).t(), in.narrow(0, first, n), experts.gemm);
    });
    std::get<2>(result) = dgate_up;
    std::get<3>(result) = ddown;
  }
  if (x_wanted) {
    experts.each([&](int64_t e, int64_t first, int64_t n) {
      product_into(dy.narrow(0, first, n), both.narrow(0, first, n), experts.gate_up[e],
                   experts.gemm);
    });
    // A token's gradient is the sum over its experts.
    std::get<0>(result) = sum_of_rows(dy, {}, experts.rows);
  }
  return result;
}

MoeForward moe_experts_forward(const at::Tensor& x, const at::Tensor& index,
                               const at::Tensor& weight, const at::Tensor& gate_up,
                               const at::Tensor& down, bool upcast) {
  static const auto op = find_op<decltype(moe_experts_cpu)>("xrun::moe_experts_forward");
  return op.call(x, index, weight, gate_up, down, upcast);
}

class MoeExpertsFunction : public torch::autograd::Function<MoeExpertsFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& index, const at::Tensor& weight,
                            const at::Tensor& gate_up, const at::Tensor& down, bool upcast) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [y, gate, up] = moe_experts_forward(x, index, weight, gate_up, down, upcast);
    ctx->save_for_backward({x, index, weight, gate_up, down, gate, up});  // moe_experts_saves
    ctx->saved_data["upcast"] = upcast;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    refuse_second_derivative("moe_experts");
    static const auto op =
        find_op<decltype(moe_experts_backward_cpu)>("xrun::moe_experts_backward");
    const auto s = ctx->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dx, dweight, dgate_up, ddown] =
        op.call(grads[0].contiguous(), s[0], s[1], s[2], s[3], s[4], s[5], s[6],
                ctx->saved_data["upcast"].toBool(), ctx->needs_input_grad(0),
                ctx->needs_input_grad(2), ctx->needs_input_grad(3) || ctx->needs_input_grad(4));
    return {dx, {}, dweight, dgate_up, ddown, {}};
  }
};

at::Tensor moe_without_graph(const at::Tensor& x, const at::Tensor& index, const at::Tensor& weight,
                             const at::Tensor& gate_up, const at::Tensor& down, bool upcast) {
  return std::get<0>(moe_experts_forward(x, index, weight, gate_up, down, upcast));
}

at::Tensor moe_with_graph(const at::Tensor& x, const at::Tensor& index, const at::Tensor& weight,
                          const at::Tensor& gate_up, const at::Tensor& down, bool upcast) {
  return MoeExpertsFunction::apply(x, index, weight, gate_up, down, upcast);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(xrun, m) {
  m.def(
      "moe_experts(Tensor x, Tensor index, Tensor weight, Tensor gate_up, Tensor down, "
      "bool upcast=False) -> Tensor");
  m.def(
      "moe_experts_forward(Tensor x, Tensor index, Tensor weight, Tensor gate_up, Tensor down, "
      "bool upcast) -> (Tensor, Tensor, Tensor)");
  m.def(
      "moe_experts_backward(Tensor grad, Tensor x, Tensor index, Tensor weight, Tensor gate_up, "
      "Tensor down, Tensor gate, Tensor up, bool upcast, bool x_wanted, bool weight_wanted, "
      "bool experts_wanted) -> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(xrun, CPU, m) {
  m.impl("moe_experts_forward", moe_experts_cpu);
  m.impl("moe_experts_backward", moe_experts_backward_cpu);
}

TORCH_LIBRARY_IMPL(xrun, CompositeExplicitAutograd, m) { m.impl("moe_experts", moe_without_graph); }

TORCH_LIBRARY_IMPL(xrun, Autograd, m) { m.impl("moe_experts", moe_with_graph); }

at::Tensor moe_experts(const at::Tensor& x, const at::Tensor& index, const at::Tensor& weight,
                       const at::Tensor& gate_up, const at::Tensor& down, GemmType gemm) {
  static const auto op = find_op<decltype(moe_without_graph)>("xrun::moe_experts");
  return op.call(x, index, weight, gate_up, down, gemm == GemmType::kFloat);
}

// Listed for the memory plan, in the order of save_for_backward above.
void moe_experts_saves(SavedTensors& saved, const std::string& x, double width, double inner,
                       double top_k) {
  saved.add(x, width);
  saved.add("expert_gate", top_k * inner);
  saved.add("expert_up", top_k * inner);
}

Temporaries moe_experts_temporaries(double width, double inner, double top_k) {
  // forward: in and out; gate, up and a. Backward: dy and in; a, da, dgate, dup, and both, which is
  // twice as wide.
  return {.forward = top_k * (2 * width + 3 * inner), .backward = top_k * (2 * width + 6 * inner)};
}

}  // namespace xrun
