#pragma once
// Every operator registered with the dispatcher, by name, with its arguments as its schema declares
// them.

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lua/state/doc.h"
#include "lua/tensor/op_arguments.h"
#include "lua/tensor/op_value.h"

namespace xrun {

struct OpArgument {
  std::string name;
  ArgumentKind kind = ArgumentKind::kUnsupported;
  bool optional = false;  // may be None
  bool has_default = false;
  bool keyword_only = false;
  bool writes = false;  // the operator changes it in place
  int count = 0;        // N of int[N], where one int means N equal ones
};

struct OpOverload {
  c10::OperatorHandle handle;
  std::vector<OpArgument> arguments;
  int positional = 0;    // arguments that are not keyword-only
  int self = -1;         // the argument that receives the object before the colon; -1: not a method
  bool factory = false;  // makes a tensor from no other tensor; takes requires_grad as well
  // The only positional argument (besides self) is a list of ints: x:view(2, 3) is x:view({2, 3}).
  int ints_from = -1;  // its index, or -1

  const c10::FunctionSchema& schema() const { return handle.schema(); }
};

// The overloads of one name, in the order in which they are tried.
struct OpPacket {
  std::string name;  // "aten::add"
  std::vector<OpOverload> overloads;
  bool number_as_tensor = false;
  OpArgumentCheck check = nullptr;
  Binding as_method, as_function;  // "Tensor:add", "xrun.add"

  // The overload that arguments of these kinds chose last time: no scoring on the hot path.
  struct Cache {
    std::mutex mutex;
    std::unordered_map<uint64_t, const OpOverload*> chosen;  // key: hash of the kinds, in order
  };
  std::shared_ptr<Cache> cache;
};

// Returns the packet of namespace::name, built at first use; nullptr if Lua cannot call it: it is
// in another namespace than aten and xrun, has only out= or Dimname overloads, or does not check
// its arguments. Lives as long as the process. Thread-safe.
const OpPacket* find_op(std::string_view op_namespace, std::string_view name);

// Returns the packet, as above, of an operator that recipes may call as a method or as xrun.name;
// nullptr for set_, resize_ and others that replace a tensor's storage.
const OpPacket* find_public_op(std::string_view name);

// Returns true if the dispatcher has the operator, whether Lua may call it or not.
bool has_op(std::string_view op_namespace, std::string_view name);

// Returns the public names of ATen, sorted, for did-you-mean.
const std::vector<std::string>& public_op_names();

// Returns the operators of a namespace ("xrun") that Lua may call, sorted.
std::vector<std::string> op_names(std::string_view op_namespace);

// "sum(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)"
std::string overload_text(const OpOverload& overload);

// Calls a packet with the Lua arguments on the stack (1..top); pushes and counts its results.
int call_op(lua_State* L, const OpPacket& packet, bool as_method);

// Calls an ATen operator by name with the arguments on the stack, for operators and sugar.
int call_aten(lua_State* L, std::string_view name);

}  // namespace xrun
