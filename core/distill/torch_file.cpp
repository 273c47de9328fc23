// A pickle is a program for a stack machine that may call any Python function. This machine
// has only the opcodes that build plain values, and knows two functions, as fixed code:
// torch._utils._rebuild_tensor_v2 (a tensor over a storage) and collections.OrderedDict() (a
// tensor's empty hooks). Anything else is refused by name. Memory is a small multiple of the file.

#include "core/distill/torch_file.h"

#include <bit>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/utf8.h"
#include "core/distill/torch_archive.h"

namespace xrun {

namespace {

constexpr uint64_t kMaxTorchBytes = uint64_t{4} << 30;
constexpr size_t kMaxTorchDimensions = 8;

constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kOrderedDict = "collections.OrderedDict";

// Names of opcodes in pickles of other things, for messages. An opcode that is not listed is
// refused by its number.
struct OpcodeName {
  uint8_t opcode;
  const char* name;
};
constexpr OpcodeName kRefused[] = {
    {'b', "BUILD"},        {'i', "INST"},
    {'o', "OBJ"},          {0x81, "NEWOBJ"},
    {0x92, "NEWOBJ_EX"},   {0x82, "EXT1"},
    {0x83, "EXT2"},        {0x84, "EXT4"},
    {'P', "PERSID"},       {'F', "FLOAT"},
    {'I', "INT"},          {'L', "LONG"},
    {'S', "STRING"},       {'V', "UNICODE"},
    {'B', "BINBYTES"},     {'C', "SHORT_BINBYTES"},
    {0x8e, "BINBYTES8"},   {0x96, "BYTEARRAY8"},
    {0x8f, "EMPTY_SET"},   {0x91, "FROZENSET"},
    {0x97, "NEXT_BUFFER"}, {'0', "POP"},
    {'1', "POP_MARK"},     {'2', "DUP"},
    {'T', "BINSTRING"},    {'U', "SHORT_BINSTRING"},
    {'d', "DICT"},         {'l', "LIST"},
};

}  // namespace

// Fills a TorchFile from its archive.
class PickleReader {
 public:
  explicit PickleReader(TorchFile& file)
      : file_(file), archive_(file.bytes_, file.name_), code_(archive_.pickle()) {}

  TorchFile::ValueId run() {
    for (;;) {
      begin_ = at_;
      const auto opcode = static_cast<uint8_t>(take(1)[0]);
      if (opcode == '.') break;
      if (!step_value(opcode) && !step_container(opcode) && !step_memo(opcode)) refuse(opcode);
    }
    // Python would ignore what lies below; here it is a sign of a file made by hand.
    check(marks_.empty() && stack_.size() == 1, "the pickle ends with more than one value");
    return stack_[0];
  }

 private:
  using ValueId = TorchFile::ValueId;
  void check(bool holds, const std::string& what) const {
    XRUN_CHECK(holds, "{}: data.pkl, byte {}: {}", file_.name_, begin_, what);
  }

  // Calls `act`, whose errors then begin with the file and the opcode.
  template <typename Act>
  auto checked(const Act& act) const {
    try {
      return act();
    } catch (const Error& error) {
      throw Error(fmt::format("{}: data.pkl, byte {}: {}", file_.name_, begin_, error.what()));
    }
  }

  [[noreturn]] void refuse(uint8_t opcode) const {
    std::string name = fmt::format("0x{:02x}", opcode);
    for (const OpcodeName& known : kRefused) {
      if (known.opcode == opcode) name = known.name;
    }
    throw Error(fmt::format(
        "{}: data.pkl, byte {}: the opcode {} is refused: a file of tensors, numbers, strings, "
        "tuples and dicts has none; nothing was executed",
        file_.name_, begin_, name));
  }

  // ---- bytes of the pickle

  std::string_view take(uint64_t size) {
    // Written so that at_ + size cannot overflow.
    check(size <= code_.size() - at_, "the pickle is cut off");
    at_ += size;
    return code_.substr(at_ - size, size);
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const size_t end = code_.find('\n', at_);
    check(end != std::string_view::npos, "the pickle is cut off");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  // ---- the stack

  void push(TorchKind kind, int64_t whole) {
    check(file_.nodes_.size() < INT32_MAX, "the pickle has too many values");
    file_.nodes_.push_back({kind, whole});
    stack_.push_back(static_cast<ValueId>(file_.nodes_.size() - 1));
  }
  void push_string(TorchKind kind, std::string_view text) {
    file_.strings_.push_back(text);
    push(kind, static_cast<int64_t>(file_.strings_.size() - 1));
  }
  void push_text(std::string_view text) {
    check(is_valid_utf8(text), "a string is not UTF-8");
    push_string(TorchKind::kString, text);
  }
  void push_sequence(TorchKind kind, std::vector<ValueId> items) {
    file_.sequences_.push_back(std::move(items));
    push(kind, static_cast<int64_t>(file_.sequences_.size() - 1));
  }
  // Values below the latest mark belong to the container around it and cannot be popped.
  size_t base() const { return marks_.empty() ? 0 : marks_.back(); }
  ValueId pop() {
    check(stack_.size() > base(), "the stack is empty");
    const ValueId value = stack_.back();
    stack_.pop_back();
    return value;
  }
  ValueId top() const {
    check(stack_.size() > base(), "the stack is empty");
    return stack_.back();
  }
  std::vector<ValueId> pop_to_mark() {
    check(!marks_.empty(), "there is no mark on the stack");
    std::vector<ValueId> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()),
                               stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  ValueId pop_kind(TorchKind kind, const char* what) {
    const ValueId value = pop();
    check(file_.kind(value) == kind, what);
    return value;
  }
  std::vector<ValueId>& sequence(ValueId value) {
    return file_.sequences_[static_cast<size_t>(file_.nodes_[size_t(value)].whole)];
  }

  // ---- opcodes

  bool step_value(uint8_t opcode) {
    switch (opcode) {
      case 0x80: {  // PROTO
        const int version = number<uint8_t>();
        check(version >= 2 && version <= 5, fmt::format("protocol {} is not known", version));
        return true;
      }
      // A frame's length only helps a reader of streams, and the whole pickle is here.
      case 0x95: take(8); return true;  // FRAME
      case 'N': push(TorchKind::kNone, 0); return true;
      case 0x88: push(TorchKind::kBool, 1); return true;
      case 0x89: push(TorchKind::kBool, 0); return true;
      case 'K': push(TorchKind::kInt, number<uint8_t>()); return true;
      case 'M': push(TorchKind::kInt, number<uint16_t>()); return true;
      case 'J': push(TorchKind::kInt, number<int32_t>()); return true;
      case 0x8a: push_long(take(number<uint8_t>())); return true;  // LONG1
      case 'G':
        // Big endian, unlike all other numbers of a pickle. A node keeps the bits.
        push(TorchKind::kFloat, int64_t(__builtin_bswap64(number<uint64_t>())));
        return true;
      case 'X': push_text(take(number<uint32_t>())); return true;
      case 0x8c: push_text(take(number<uint8_t>())); return true;  // SHORT_BINUNICODE
      case 'c': {                                                  // GLOBAL
        const std::string_view module = line();
        push_class(module, line());
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        // The name was pushed last.
        const ValueId name = pop_kind(TorchKind::kString, "the name of a class is not a string");
        const ValueId module = pop_kind(TorchKind::kString, "the name of a module is not a string");
        push_class(file_.as_string(module), file_.as_string(name));
        return true;
      }
      case 'Q':
        push_storage(pop_kind(TorchKind::kTuple, "a persistent id is not a tuple"));
        return true;
      case 'R': reduce(); return true;
      default: return false;
    }
  }

  bool step_container(uint8_t opcode) {
    switch (opcode) {
      case '(': marks_.push_back(stack_.size()); return true;
      case ')': push_sequence(TorchKind::kTuple, {}); return true;
      case ']': push_sequence(TorchKind::kList, {}); return true;
      case '}': push_sequence(TorchKind::kDict, {}); return true;
      case 't': push_sequence(TorchKind::kTuple, pop_to_mark()); return true;
      case 0x85:  // TUPLE1, TUPLE2, TUPLE3
      case 0x86:
      case 0x87: {
        std::vector<ValueId> items(opcode - 0x84);
        for (size_t i = items.size(); i-- > 0;) items[i] = pop();
        push_sequence(TorchKind::kTuple, std::move(items));
        return true;
      }
      case 'a':
      case 'e': {  // APPEND, APPENDS
        const std::vector<ValueId> items = opcode == 'a' ? std::vector{pop()} : pop_to_mark();
        check(file_.kind(top()) == TorchKind::kList, "appends to a value that is not a list");
        std::vector<ValueId>& list = sequence(top());
        list.insert(list.end(), items.begin(), items.end());
        return true;
      }
      case 's':
      case 'u': {  // SETITEM, SETITEMS
        std::vector<ValueId> items;
        if (opcode == 's') {
          const ValueId value = pop();
          items = {pop(), value};
        } else {
          items = pop_to_mark();
        }
        // Keys and values alternate in one list. A later key wins, so find() reads from the end.
        check(items.size() % 2 == 0, "a dict has a key without a value");
        check(file_.kind(top()) == TorchKind::kDict, "sets items of a value that is not a dict");
        std::vector<ValueId>& dict = sequence(top());
        dict.insert(dict.end(), items.begin(), items.end());
        return true;
      }
      default: return false;
    }
  }

  bool step_memo(uint8_t opcode) {
    switch (opcode) {
      case 'q': remember(number<uint8_t>()); return true;
      case 'r': remember(number<uint32_t>()); return true;
      case 0x94: remember(memo_.size()); return true;  // MEMOIZE
      case 'h': recall(number<uint8_t>()); return true;
      case 'j': recall(number<uint32_t>()); return true;
      default: return false;
    }
  }

  // Python numbers the memo from 0, so an index never asks for memory.
  void remember(uint64_t index) {
    check(index <= memo_.size(), "the memo is not numbered in order");
    const ValueId value = top();
    if (index == memo_.size()) {
      memo_.push_back(value);
    } else {
      memo_[index] = value;
    }
  }
  void recall(uint64_t index) {
    check(index < memo_.size(), "the memo has no such entry");
    // Not a copy: in Python too, a memo entry is another name for the same object.
    stack_.push_back(memo_[index]);
  }

  // Two's complement, little endian.
  void push_long(std::string_view bytes) {
    check(bytes.size() <= 8, "an integer exceeds 64 bits");
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    const unsigned unused = 64 - 8 * static_cast<unsigned>(bytes.size());
    // Shifted up and back down, which extends the sign; no bytes at all are 0.
    push(TorchKind::kInt, unused == 64 ? 0 : static_cast<int64_t>(value << unused) >> unused);
  }

  void push_class(std::string_view module, std::string_view name) {
    const std::string whole = fmt::format("{}.{}", module, name);
    for (const std::string_view known : {kRebuildTensor, kOrderedDict}) {
      // The constant and not the file's text, so that reduce() may compare it.
      if (whole == known) return push_string(TorchKind::kClass, known);
    }
    if (const std::string_view known = torch_storage_class(whole); !known.empty()) {
      return push_string(TorchKind::kClass, known);
    }
    check(false, fmt::format("refers to {}, which a file of plain tensors never needs; nothing was "
                             "executed",
                             shortened(whole, 200)));
  }

  // ("storage", class, key, device, elements)
  void push_storage(ValueId id) {
    const std::vector<ValueId>& items = sequence(id);
    check(items.size() == 5 && file_.kind(items[0]) == TorchKind::kString &&
              file_.as_string(items[0]) == "storage" && file_.kind(items[1]) == TorchKind::kClass &&
              file_.kind(items[2]) == TorchKind::kString && file_.kind(items[4]) == TorchKind::kInt,
          "a persistent id does not name a storage");
    const std::string_view key = file_.as_string(items[2]);
    storages_.push_back(checked(
        [&] { return archive_.storage(file_.as_string(items[1]), key, file_.as_int(items[4])); }));
    archive_.check_storage(key);
    push(TorchKind::kStorage, static_cast<int64_t>(storages_.size() - 1));
  }

  void reduce() {
    const ValueId arguments = pop_kind(TorchKind::kTuple, "a call has no tuple of arguments");
    const ValueId called = pop_kind(TorchKind::kClass, "calls a value that is not a function");
    const std::string_view name = file_.as_string(called);
    if (name == kOrderedDict) {
      check(sequence(arguments).empty(), "an OrderedDict has arguments");
      return push_sequence(TorchKind::kDict, {});
    }
    // A storage class is named by persistent ids and is never called.
    check(name == kRebuildTensor, fmt::format("calls {}, which is a class", name));
    file_.tensors_.push_back(rebuild_tensor(sequence(arguments)));
    push(TorchKind::kTensor, static_cast<int64_t>(file_.tensors_.size() - 1));
  }

  std::vector<int64_t> sizes(ValueId value) {
    check(file_.kind(value) == TorchKind::kTuple && sequence(value).size() <= kMaxTorchDimensions,
          "a tensor's shape or stride is not a tuple of sizes");
    std::vector<int64_t> sizes;
    for (const ValueId item : sequence(value)) {
      check(file_.kind(item) == TorchKind::kInt && file_.as_int(item) >= 0,
            "a tensor's shape or stride is not a tuple of sizes");
      sizes.push_back(file_.as_int(item));
    }
    return sizes;
  }

  // (storage, offset, shape, stride, requires_grad, hooks[, metadata])
  TorchTensor rebuild_tensor(const std::vector<ValueId>& arguments) {
    check((arguments.size() == 6 || arguments.size() == 7) &&
              file_.kind(arguments[0]) == TorchKind::kStorage &&
              file_.kind(arguments[1]) == TorchKind::kInt && file_.as_int(arguments[1]) >= 0,
          "a tensor is not made of a storage, an offset, a shape and a stride");
    const TorchStorage& storage =
        storages_[static_cast<size_t>(file_.nodes_[size_t(arguments[0])].whole)];
    std::vector<int64_t> shape = sizes(arguments[2]), stride = sizes(arguments[3]);
    return checked([&] {
      return tensor_over(storage, file_.as_int(arguments[1]), std::move(shape), std::move(stride));
    });
  }

  TorchFile& file_;
  TorchArchive archive_;
  std::string_view code_;
  size_t at_ = 0, begin_ = 0;  // begin_: of the opcode that messages name
  std::vector<ValueId> stack_, memo_;
  std::vector<size_t> marks_;
  std::vector<TorchStorage> storages_;
};

TorchFile::TorchFile(const std::filesystem::path& path)
    : TorchFile(read_file(path, kMaxTorchBytes), path.string()) {}

TorchFile::TorchFile(std::string bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {
  root_ = PickleReader(*this).run();
}

const char* TorchFile::kind_name(ValueId value) const {
  constexpr const char* kNames[] = {"None", "bool", "int",    "float", "str",    "tuple",
                                    "list", "dict", "tensor", "class", "storage"};
  return kNames[static_cast<size_t>(kind(value))];
}

double TorchFile::as_float(ValueId value) const {
  return std::bit_cast<double>(nodes_[size_t(value)].whole);
}

std::string_view TorchFile::as_string(ValueId value) const {
  return strings_[static_cast<size_t>(nodes_[size_t(value)].whole)];
}

const TorchTensor& TorchFile::as_tensor(ValueId value) const {
  return tensors_[static_cast<size_t>(nodes_[size_t(value)].whole)];
}

std::span<const TorchFile::ValueId> TorchFile::items(ValueId value) const {
  return sequences_[static_cast<size_t>(nodes_[size_t(value)].whole)];
}

std::optional<TorchFile::ValueId> TorchFile::find(ValueId dict, std::string_view key) const {
  if (kind(dict) != TorchKind::kDict) return std::nullopt;
  const std::span<const ValueId> all = items(dict);
  for (size_t i = all.size(); i >= 2; i -= 2) {
    const ValueId k = all[i - 2];
    if (kind(k) == TorchKind::kString && as_string(k) == key) return all[i - 1];
  }
  return std::nullopt;
}

}  // namespace xrun
