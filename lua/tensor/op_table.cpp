// An index of the dispatcher's operators. Left out are out= overloads, Dimname overloads (their
// arguments have the type str, so they would match strings; only the overload's name tells), and,
// as methods, operators that replace a tensor's storage.

#include "lua/tensor/op_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {
namespace {

// PyTorch's should_allow_numbers_as_tensors, which only the Python library has. `to` is missing
// here because to(5) would otherwise mean "to the type of the tensor 5".
constexpr std::array kNumbersAsTensors = {
    "add",         "add_",         "div",       "div_", "divide",       "divide_",      "mul",
    "mul_",        "multiply",     "multiply_", "sub",  "sub_",         "subtract",     "subtract_",
    "true_divide", "true_divide_", "copy_",     "copy", "floor_divide", "floor_divide_"};

// They change a tensor's storage or its autograd state, or need names or streams.
constexpr std::array kNotPublic = {"set_",
                                   "set",
                                   "set_data",
                                   "resize",
                                   "resize_",
                                   "resize_as",
                                   "resize_as_",
                                   "resize_as_sparse",
                                   "resize_as_sparse_",
                                   "data",
                                   "record_stream",
                                   "requires_grad_",
                                   "retain_grad",
                                   "rename",
                                   "rename_",
                                   "refine_names",
                                   "align_to",
                                   "align_as",
                                   "align_tensors",
                                   "is_leaf",
                                   "output_nr"};

template <class List>
bool in(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Operators of ATen that do not check their arguments: by name, and by prefix those that take
// another library's packed weights as tensors.
constexpr std::array kUnchecked = {"from_file"};  // maps a file by its name and may enlarge it
constexpr std::array kUncheckedHeads = {"cudnn_", "fbgemm_", "miopen_", "mkldnn_", "quantized_"};

// Operators that do not check their arguments, where a wrong one would be a segmentation fault:
// ours that autograd or other operators call, and ATen's with a leading underscore, its backward
// operators and those of kUnchecked.
bool is_internal(std::string_view op_namespace, std::string_view name) {
  if (op_namespace == "xrun") {
    return name.ends_with("_forward") || name.ends_with("_backward") || name == "rope_rotate" ||
           name == "dropout_mask";
  }
  return name.starts_with('_') || name.find("_backward") != name.npos || in(kUnchecked, name) ||
         std::any_of(kUncheckedHeads.begin(), kUncheckedHeads.end(),
                     [&](const char* head) { return name.starts_with(head); });
}

bool has_dimnames(const std::string& overload_name) {
  const std::string lower = lower_case(overload_name);
  for (const char* mark : {"dimname", "names", "named"}) {
    if (lower.find(mark) != std::string::npos) return true;
  }
  return false;
}

struct Index {
  std::mutex mutex;
  // The lists of all operators, and the packets that were asked for so far.
  size_t operators = 0;  // in the dispatcher when `names` was filled
  std::unordered_map<std::string, std::vector<c10::OperatorName>> names;
  std::map<std::string, std::unique_ptr<OpPacket>, std::less<>> packets;
  std::vector<std::string> public_names;
};

// Never destroyed: bindings of Lua states that outlive main() point into it.
Index& op_index() {
  static Index* const instance = new Index;
  return *instance;
}

// Reads the dispatcher's names again if a library has registered more since. Returns true if so.
bool refresh(Index& index) {
  std::vector<c10::OperatorName> all = c10::Dispatcher::singleton().getAllOpNames();
  // Libraries only add operators, so the count tells whether anything is new.
  if (all.size() == index.operators) return false;
  index.operators = all.size();
  index.names.clear();
  for (c10::OperatorName& name : all) index.names[name.name].push_back(std::move(name));
  index.public_names.clear();
  for (const auto& [name, overloads] : index.names) {
    // Other namespaces are reached through xrun.ops and are not methods.
    if (!name.starts_with("aten::")) continue;
    const std::string own = name.substr(6);
    if (!is_internal("aten", own) && !in(kNotPublic, own)) index.public_names.push_back(own);
  }
  std::sort(index.public_names.begin(), index.public_names.end());
  return true;
}

bool is_factory(const OpOverload& overload) {
  bool dtype = false, layout = false, tensor = false;
  for (const OpArgument& argument : overload.arguments) {
    dtype = dtype || (argument.keyword_only && argument.name == "dtype");
    layout = layout || (argument.keyword_only && argument.name == "layout");
    tensor = tensor || (argument.kind == ArgumentKind::kTensor && argument.name != "self");
  }
  // zeros, full, rand and their likes; *_like have a tensor named self.
  return dtype && layout && !tensor;
}

std::optional<OpOverload> read_overload(const c10::OperatorHandle& handle) {
  const c10::FunctionSchema& schema = handle.schema();
  if (has_dimnames(schema.overload_name())) return std::nullopt;
  OpOverload overload{.handle = handle, .arguments = {}};
  for (const c10::Argument& argument : schema.arguments()) {
    // out= writes into a tensor of the caller, whose shape it may change.
    if (argument.is_out()) return std::nullopt;
    OpArgument read;
    read.name = argument.name();
    read.kind = argument_kind(argument, read.optional);
    read.has_default = argument.default_value().has_value();
    read.keyword_only = argument.kwarg_only();
    read.writes = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    read.count = argument.N().value_or(0);
    const int at = static_cast<int>(overload.arguments.size());
    // Most schemas say `self`; some operators call their first tensor `input`.
    if (read.kind == ArgumentKind::kTensor && (read.name == "self" || (at == 0)) &&
        (overload.self < 0 || read.name == "self")) {
      overload.self = at;
    }
    overload.positional += read.keyword_only ? 0 : 1;
    overload.arguments.push_back(std::move(read));
  }
  overload.factory = is_factory(overload);
  // The first argument beside the object.
  const int only = overload.self == 0 ? 1 : 0;
  // view, permute, expand, repeat: one list is all that follows the object.
  if (overload.positional == only + 1 && overload.arguments[only].kind == ArgumentKind::kIntList) {
    overload.ints_from = only;
  }
  return overload;
}

// Fewer arguments first, then by name: of overloads with equal costs the first one is chosen.
bool tried_before(const OpOverload& a, const OpOverload& b) {
  if (a.arguments.size() != b.arguments.size()) return a.arguments.size() < b.arguments.size();
  return a.schema().overload_name() < b.schema().overload_name();
}

int invoke_method(lua_State* L, void* packet) {
  return call_op(L, *static_cast<const OpPacket*>(packet), true);
}

int invoke_function(lua_State* L, void* packet) {
  return call_op(L, *static_cast<const OpPacket*>(packet), false);
}

std::unique_ptr<OpPacket> read_packet(const std::string& name,
                                      const std::vector<c10::OperatorName>& overloads) {
  auto packet = std::make_unique<OpPacket>();
  packet->name = name;
  for (const c10::OperatorName& overload : overloads) {
    const auto handle = c10::Dispatcher::singleton().findSchema(overload);
    if (!handle) continue;  // an implementation without a definition
    if (auto read = read_overload(*handle)) packet->overloads.push_back(std::move(*read));
  }
  // Cached as null by the caller: the search is not repeated.
  if (packet->overloads.empty()) return nullptr;
  std::sort(packet->overloads.begin(), packet->overloads.end(), tried_before);
  const size_t colons = name.find("::");
  const std::string_view short_name = std::string_view(name).substr(colons + 2);
  // xrun.cat, but xrun.ops.xrun.linear_head.
  const bool aten = name.starts_with("aten::");
  if (aten) packet->check = op_argument_check(short_name);
  packet->number_as_tensor = aten && in(kNumbersAsTensors, short_name);
  const std::string home = aten ? "xrun." : "xrun.ops." + name.substr(0, colons) + ".";
  packet->as_method.entry.name = fmt::format("Tensor:{}", short_name);
  packet->as_method.function = packet->as_function.function = packet.get();
  packet->as_method.invoke = invoke_method;
  packet->as_function.entry.name = fmt::format("{}{}", home, short_name);
  packet->as_function.invoke = invoke_function;
  // Overloads by the kinds of their arguments, filled by calls.
  packet->cache = std::make_shared<OpPacket::Cache>();
  return packet;
}

}  // namespace

const OpPacket* find_op(std::string_view op_namespace, std::string_view name) {
  const bool offered = op_namespace == "aten" || op_namespace == "xrun";
  if (!offered || is_internal(op_namespace, name)) return nullptr;
  Index& index = op_index();
  const std::string full = fmt::format("{}::{}", op_namespace, name);
  const std::lock_guard lock(index.mutex);
  if (auto found = index.packets.find(full); found != index.packets.end()) {
    return found->second.get();
  }
  auto overloads = index.names.find(full);
  if (overloads == index.names.end()) {
    // A plug-in may have registered it since.
    if (!refresh(index)) return nullptr;
    overloads = index.names.find(full);
    if (overloads == index.names.end()) return nullptr;
  }
  // Packets are never removed, so callers use them without the lock.
  auto packet = read_packet(full, overloads->second);
  // A null packet is remembered: the operator has no overload that Lua can call.
  return index.packets.emplace(full, std::move(packet)).first->second.get();
}

const OpPacket* find_public_op(std::string_view name) {
  if (name.empty() || in(kNotPublic, name)) return nullptr;
  return find_op("aten", name);
}

bool has_op(std::string_view op_namespace, std::string_view name) {
  Index& index = op_index();
  const std::lock_guard lock(index.mutex);
  refresh(index);
  return index.names.contains(fmt::format("{}::{}", op_namespace, name));
}

const std::vector<std::string>& public_op_names() {
  Index& index = op_index();
  const std::lock_guard lock(index.mutex);
  refresh(index);
  return index.public_names;
}

std::vector<std::string> op_names(std::string_view op_namespace) {
  Index& index = op_index();
  const std::string head = fmt::format("{}::", op_namespace);
  std::vector<std::string> names;
  {
    const std::lock_guard lock(index.mutex);
    refresh(index);
    for (const auto& [name, overloads] : index.names) {
      if (name.starts_with(head)) names.push_back(name.substr(head.size()));
    }
  }
  // Without the lock: find_op takes it.
  std::erase_if(names, [&](const std::string& name) { return !find_op(op_namespace, name); });
  std::sort(names.begin(), names.end());
  return names;
}

std::string overload_text(const OpOverload& overload) {
  const c10::FunctionSchema& schema = overload.schema();
  const size_t colons = schema.name().find("::");
  std::string text = schema.name().substr(colons + 2) + "(";
  bool keywords = false;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (i > 0) text += ", ";
    // "*" separates the arguments that are given by name only.
    if (argument.kwarg_only() && !keywords) text += "*, ";
    keywords = argument.kwarg_only();
    text += argument.real_type()->str() + " " + argument.name();
    if (argument.default_value() && !argument.default_value()->isNone()) {
      text += fmt::format("={}", c10::str(*argument.default_value()));
    } else if (argument.default_value()) {
      text += "=none";
    }
  }
  return text + ")";
}

}  // namespace xrun
