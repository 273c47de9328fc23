// One row per known message of Lua or LibTorch without a fix: a piece of the message, then the fix.

#include <array>
#include <utility>

#include "lua/state/error_report.h"

namespace xrun {
namespace {

using Hint = std::pair<std::string_view, std::string_view>;

// In order: the first piece that the message contains decides.
constexpr std::array kHints = {
    Hint{"attempt to compare",
         "comparing tensors with < gives one boolean; use :lt, :le, :gt, :ge, :eq element by "
         "element, or :item() for the number"},
    Hint{"must match the size of tensor b",
         "shapes broadcast from the right: sizes must be equal or 1; :unsqueeze(dim) adds a 1"},
    Hint{"shapes cannot be multiplied",
         "matmul multiplies [n,k] by [k,m]; :t() or :transpose(-1, -2) swaps the last two dims"},
    Hint{"does not require grad and does not have a grad_fn",
         "no input of it requires grad: was it made under xrun.no_grad, or by xrun.keep, which "
         "detaches?"},
    Hint{"objective failed: Trying to backward through the graph",
         "it uses a tensor of an earlier backward: compute it inside the objective, or detach it "
         "with xrun.keep"},
    Hint{"backward through the graph a second time",
         "the first backward freed the graph; pass { retain_graph = true } to it"},
    Hint{"modified by an inplace operation",
         "a tensor that the backward needs was changed after its use; in the objective use the "
         "methods without a trailing _"},
    Hint{"grad can be implicitly created only for scalar outputs",
         "reduce first (:sum(), :mean()), or pass the gradient of the output"},
    Hint{
        "could not infer output dtype",
        "whole numbers make i64 tensors, as 2 is 2.0 in Lua; pass { dtype = \"f32\" } or :float()"},
    Hint{"can't be cast to the desired output type", "convert first, as in x:float()"},
    Hint{"a leaf Variable that requires grad is being used in an in-place operation",
         "use the form without the trailing _ or wrap the change in xrun.no_grad(function() ... "
         "end)"},
    Hint{"a view of a leaf Variable that requires grad",
         "use the form without the trailing _ or wrap the change in xrun.no_grad(function() ... "
         "end)"},
    Hint{"tensors used as indices must be", "convert the index with :long() or :bool()"},
    Hint{"near 'repeat'", "`repeat` is a keyword of Lua; the method is :tile(...)"},
    Hint{"near '#'", "a comment in Lua begins with --"},
    Hint{"Dimension out of range", "dimensions count from 0, or from -1 at the end"},
    Hint{"stack overflow", "a function calls itself without a limit"},
};

}  // namespace

std::string hint_for(std::string_view message) {
  for (const auto& [piece, hint] : kHints) {
    if (message.find(piece) != std::string_view::npos) return std::string(hint);
  }
  return "";
}

}  // namespace xrun
