// Operators that check their arguments, or whose arguments op_arguments.cpp checks, and that only
// compute on dense tensors. Not listed: uninitialised memory (empty), views beyond the shape
// (as_strided), sparse and quantized tensors, recurrent networks and convolutions with their
// library calls, other threads of the process (pin_memory), and whatever a newer LibTorch adds.

#include "lua/tensor/op_rights.h"

#include "core/base/error.h"
#include "core/base/file_access.h"

namespace xrun {

namespace {

// Separated and enclosed by blanks. An operator in place, add_, is allowed with add.
constexpr std::string_view kAllowedOps =
    " abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all allclose amax amin"
    " aminmax any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort"
    " asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d backward baddbmm bernoulli"
    " bfloat16 binary_cross_entropy binary_cross_entropy_with_logits bincount bitwise_and"
    " bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor block_diag bmm bool"
    " broadcast_tensors broadcast_to bucketize cartesian_prod cat cdist ceil celu chunk clamp"
    " clamp_max clamp_min clip clone column_stack combinations concat concatenate"
    " constant_pad_nd contiguous copy copysign corrcoef cos cosh cosine_embedding_loss"
    " cosine_similarity count_nonzero cov cpu cross cross_entropy_loss cummax cummin cumprod cumsum"
    " deg2rad detach diag diag_embed diagflat diagonal diff digamma dim dist div divide dot double"
    " dropout einsum element_size elu embedding eq equal erf erfc erfinv exp exp2 expand expand_as"
    " expm1 exponential eye fill fix flatten flip fliplr flipud float float_power floor"
    " floor_divide fmax fmin fmod frac full full_like gather gcd ge gelu glu greater greater_equal"
    " gt half hardsigmoid hardswish hardtanh heaviside hinge_embedding_loss histc hstack huber_loss"
    " hypot index index_add index_copy index_fill index_put index_select inner int is_complex"
    " is_contiguous is_floating_point is_nonzero is_same_size is_signed isclose isfinite isin isinf"
    " isnan isneginf isposinf item kl_div kron kthvalue l1_loss layer_norm lcm ldexp le leaky_relu"
    " lerp less less_equal lgamma linear linspace log log10 log1p log2 log_normal log_sigmoid"
    " log_softmax logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor"
    " logit logspace logsumexp long lt margin_ranking_loss masked_fill masked_scatter"
    " masked_select matmul max maximum mean median meshgrid min minimum mish mm mode moveaxis"
    " movedim mse_loss msort mul multinomial multiply mv nan_to_num nanmean nanmedian nanquantile"
    " nansum narrow ne neg negative new_full new_ones new_zeros nll_loss nonzero norm normal"
    " not_equal numel one_hot ones ones_like outer pad pairwise_distance permute poisson"
    " poisson_nll_loss positive pow prelu prod quantile rad2deg rand rand_like randint randint_like"
    " randn randn_like randperm range ravel real reciprocal relu relu6 remainder repeat"
    " repeat_interleave requires_grad reshape reshape_as rms_norm roll rot90 round rsqrt rsub"
    " scatter scatter_add scatter_reduce searchsorted select selu sgn short sigmoid sign signbit"
    " silu sin sinc sinh size smooth_l1_loss soft_margin_loss softmax softplus softshrink sort"
    " split split_with_sizes sqrt square squeeze stack std std_mean stride sub subtract sum"
    " sum_to_size swapaxes swapdims t take take_along_dim tan tanh tensor_split tensordot threshold"
    " tile to topk trace transpose trapezoid tril tril_indices triplet_margin_loss triu"
    " triu_indices true_divide trunc type_as unbind unflatten unfold uniform unique_consecutive"
    " unique_dim unsqueeze vander var var_mean vdot view view_as vstack where xlogy zero zeros"
    " zeros_like ";

bool is_listed(std::string_view name) {
  const std::string word = fmt::format(" {} ", name);
  return kAllowedOps.find(word) != kAllowedOps.npos;
}

}  // namespace

void check_op_rights(std::string_view op_namespace, std::string_view name) {
  if (!file_access_limited() || op_namespace != "aten") return;
  const std::string_view plain = name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
  if (is_listed(name) || is_listed(plain)) return;
  throw Error(fmt::format(
      "the operator {} is not for a recipe that is not trusted\nhint: --trusted runs it "
      "without limits",
      name));
}

}  // namespace xrun
