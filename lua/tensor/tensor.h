#pragma once
// Tensors as Lua values (class Tensor). Lua's collector does not see the bytes of a tensor, so a
// ledger counts them, triggers collections, and closes the tensors of a scope when it ends.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lua/state/class.h"
#include "lua/tensor/tensor_text.h"

namespace xrun {

struct TensorLink {
  TensorLink* previous = this;
  TensorLink* next = this;
  void unlink() noexcept;
  void link_before(TensorLink& position) noexcept;
};

// The userdata of a tensor. Undefined `tensor` means closed.
struct TensorBox : ObjectHeader, TensorLink {
  at::Tensor tensor;
  int64_t bytes = 0;  // counted in the ledger
  size_t scope = 0;   // of the ledger, in whose list it is
};

// The tensor handles of one state: the scope of each, and the bytes pushed since the last full
// collection.
class TensorLedger {
 public:
  TensorLedger();
  // Counts a tensor that is about to be pushed; runs a full collection if the bytes pushed since
  // the last one exceed the soft limit, which grows by 1.4 while more than 80 % of it is live
  // (Torch7's rule).
  void before_push(lua_State* L, int64_t bytes);
  void add(TensorBox& box);
  void move_to_root(TensorBox& box);    // outlives every scope
  void close(TensorBox& box) noexcept;  // frees the tensor; may be called twice

  int64_t live_bytes() const { return live_bytes_; }
  int64_t live_tensors() const { return live_tensors_; }
  int64_t collections() const { return collections_; }

 private:
  friend class TensorScope;
  friend struct TensorLedgerPeer;  // of tests
  void move(TensorBox& box, size_t scope);

  std::vector<std::unique_ptr<TensorLink>> scopes_;  // list heads; [0] is the state's own
  int64_t live_bytes_ = 0, live_tensors_ = 0, debt_ = 0, collections_ = 0;
  int64_t soft_limit_ = int64_t{64} << 20;
};

// Owns the tensors pushed to its state during its lifetime. Its destructor closes them, except
// those that keep() moved to the enclosing scope. One per micro-batch; scopes end in reverse order.
class TensorScope {
 public:
  explicit TensorScope(lua_State* L);
  ~TensorScope();
  TensorScope(const TensorScope&) = delete;
  TensorScope& operator=(const TensorScope&) = delete;
  // Moves the tensor at index i, or those in the table there (nested tables too), to the enclosing
  // scope. A tensor that an outer scope owns stays there.
  void keep(lua_State* L, int i);

 private:
  void keep_in(lua_State* L, int i, int depth);
  TensorLedger& ledger_;
};

// Returns the tensor at index i; nullptr if the value is not a tensor or is closed.
const at::Tensor* tensor_if(lua_State* L, int i);

// Pushes t[i], t[{...}] or t[mask]; indices count from 0.
void index_tensor(lua_State* L, const at::Tensor& tensor, int key);
// Assigns t[key] = value.
void assign_index(lua_State* L, const at::Tensor& tensor, int key, int value);

// Registers class Tensor, factories, xrun.no_grad, keep, scope, ops, dtypes.
void open_tensor(LuaState& state);

}  // namespace xrun
