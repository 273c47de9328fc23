// Each handle is in exactly one scope's list. Finalisers and close() both call TensorLedger::close,
// which subtracts a tensor's bytes once.

#include "core/base/error.h"
#include "lua/state/args.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

// The cost of one handle beyond its storage: userdata, TensorImpl, a node of the graph.
// An estimate; it makes thousands of small tensors count.
constexpr int64_t kHandleBytes = 1024;

}  // namespace

// An unlinked handle is a list of itself, so unlinking twice is harmless.
void TensorLink::unlink() noexcept {
  previous->next = next;
  next->previous = previous;
  previous = next = this;
}

void TensorLink::link_before(TensorLink& position) noexcept {
  previous = position.previous;
  next = &position;
  previous->next = this;
  position.previous = this;
}

TensorLedger::TensorLedger() { scopes_.push_back(std::make_unique<TensorLink>()); }

void TensorLedger::before_push(lua_State* L, int64_t bytes) {
  // debt_ counts the bytes handed to Lua since the last collection: Lua itself sees some 40 bytes
  // per handle and would collect far too late.
  debt_ += bytes + kHandleBytes;
  if (debt_ <= soft_limit_) return;
  // Before the allocation, so that its memory may be reused.
  lua_gc(L, LUA_GCCOLLECT, 0);
  ++collections_;
  debt_ = bytes + kHandleBytes;
  // While live tensors fill four fifths of the limit, collecting so often would free little.
  if (live_bytes_ > soft_limit_ / 5 * 4) soft_limit_ = soft_limit_ / 5 * 7;
}

void TensorLedger::move(TensorBox& box, size_t scope) {
  box.unlink();
  box.link_before(*scopes_[scope]);
  box.scope = scope;
}

void TensorLedger::add(TensorBox& box) {
  // The innermost scope owns the new handle.
  move(box, scopes_.size() - 1);
  live_bytes_ += box.bytes;
  ++live_tensors_;
}

void TensorLedger::move_to_root(TensorBox& box) { move(box, 0); }

void TensorLedger::close(TensorBox& box) noexcept {
  if (!box.tensor.defined()) return;
  box.unlink();
  live_bytes_ -= box.bytes;
  --live_tensors_;
  // Released at the end of this function: its destructor may free other handles, and the box must
  // be consistent by then.
  const at::Tensor last = std::move(box.tensor);
  box.tensor = at::Tensor();
}

TensorScope::TensorScope(lua_State* L) : ledger_(LuaState::of(L).service<TensorLedger>()) {
  ledger_.scopes_.push_back(std::make_unique<TensorLink>());
}

TensorScope::~TensorScope() {
  const std::unique_ptr<TensorLink> head = std::move(ledger_.scopes_.back());
  ledger_.scopes_.pop_back();
  // close() unlinks, so the list shrinks with each turn.
  while (head->next != head.get()) ledger_.close(static_cast<TensorBox&>(*head->next));
}

void TensorScope::keep(lua_State* L, int i) { keep_in(L, i < 0 ? lua_gettop(L) + 1 + i : i, 0); }

void TensorScope::keep_in(lua_State* L, int i, int depth) {
  constexpr int kDeepest = 4;  // { loss, { metric = { ... } } } and some more
  if (tensor_if(L, i) != nullptr) {
    auto& box = *static_cast<TensorBox*>(lua_touserdata(L, i));
    const size_t innermost = ledger_.scopes_.size() - 1;
    // A tensor made outside of this scope stays where it is.
    if (box.scope == innermost) ledger_.move(box, innermost - 1);
  } else if (lua_type(L, i) == LUA_TTABLE && depth < kDeepest) {
    luaL_checkstack(L, 4, "no room to keep tensors");
    lua_pushnil(L);
    while (lua_next(L, i) != 0) {
      keep_in(L, lua_gettop(L), depth + 1);
      lua_pop(L, 1);
    }
  }
}

void push(lua_State* L, const at::Tensor& value) {
  if (!value.defined()) return lua_pushnil(L);
  auto& ledger = LuaState::of(L).service<TensorLedger>();
  // A view owns no bytes. Other handles of one storage are counted twice, which only
  // makes collections a little more frequent.
  const bool counts = value.layout() == at::kStrided && value.has_storage() && !value.is_view();
  const auto bytes = counts ? static_cast<int64_t>(value.nbytes()) : int64_t{0};
  ledger.before_push(L, bytes);
  auto* box = new (lua_newuserdata(L, sizeof(TensorBox))) TensorBox;
  box->info = &class_info<at::Tensor>;
  // Remembered, since the tensor's storage may change later.
  box->bytes = bytes;
  box->tensor = value;
  ledger.add(*box);
  set_class(L, &class_info<at::Tensor>);
}

const at::Tensor* tensor_if(lua_State* L, int i) {
  // The size first: a userdata of another library may be too small to have our header.
  if (lua_type(L, i) != LUA_TUSERDATA || lua_objlen(L, i) != sizeof(TensorBox)) return nullptr;
  const auto* box = static_cast<TensorBox*>(lua_touserdata(L, i));
  return box->info == &class_info<at::Tensor> && box->tensor.defined() ? &box->tensor : nullptr;
}

const at::Tensor& read_tensor(lua_State* L, int i, const char* what) {
  const at::Tensor* tensor = tensor_if(L, i);
  if (tensor != nullptr) return *tensor;
  if (class_of(L, i) == &class_info<at::Tensor>) {
    throw Error(
        "this Tensor is closed: its scope or step has ended, or close() was called"
        "\nhint: xrun.keep(t), called before that, detaches a tensor and keeps it");
  }
  throw_argument(L, i, what, "a Tensor");
}

}  // namespace xrun
