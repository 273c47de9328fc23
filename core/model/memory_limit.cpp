#include "core/model/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "core/base/count_text.h"
#include "core/base/error.h"
#include "core/model/hf_config.h"
#include "core/model/memory_plan.h"

namespace xrun {

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMb = 1'000'000;
constexpr int64_t kSmallHeadMb = 64;
constexpr int64_t kTokenStep = 64;  // of a batch.max_tokens that is proposed

std::string text_of(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

std::optional<int64_t> number_from(const std::string& text) {
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end == text.data() || value < 0) return std::nullopt;
  return value;
}

// The number behind a name at the beginning of a line: "MemAvailable: 123 kB", "inactive_file 123".
std::optional<int64_t> named_number(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    std::string value;
    if (word == name && in >> value) return number_from(value);
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

std::optional<int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  if (!(in >> word)) return std::nullopt;
  return number_from(word);  // "max" is none
}

// What one version of control groups calls its files.
struct GroupFiles {
  const char *limit, *usage, *cache;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

// What a group and those above it leave; pages of files that nobody uses are given back.
int64_t left_in_group(const std::filesystem::path& mount, const std::string& group,
                      const GroupFiles& files) {
  int64_t left = kMost;
  std::filesystem::path path = group;
  while (true) {
    const std::filesystem::path dir = mount / path.relative_path();
    const auto limit = number_in(dir / files.limit), usage = number_in(dir / files.usage);
    if (limit && usage) {
      const int64_t cache = named_number(dir / "memory.stat", files.cache).value_or(0);
      left = std::min(left, std::max<int64_t>(*limit - *usage + std::min(cache, *usage), 0));
    }
    if (path.relative_path().empty()) return left;
    path = path.parent_path();
  }
}

// Lines of /proc/self/cgroup: "4:memory:/path" of version 1, "0::/path" of version 2.
int64_t left_in_groups(const std::filesystem::path& root) {
  const std::filesystem::path mount = root / "sys/fs/cgroup";
  std::ifstream in(root / "proc/self/cgroup");
  int64_t left = kMost;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (names.empty()) left = std::min(left, left_in_group(mount, group, kVersion2));
    if (names == "memory") left = std::min(left, left_in_group(mount / "memory", group, kVersion1));
  }
  return left;
}

// A change of the configuration, and what the step then is.
struct Change {
  std::string text;
  MemoryShape shape;
};

MemoryShape with_tokens(const MemoryShape& shape, int64_t tokens) {
  MemoryShape less = shape;
  less.several = true;
  less.loss_rows = shape.tokens == 0 ? 0 : shape.loss_rows * tokens / shape.tokens + 1;
  less.tokens = tokens;
  return less;
}

// The largest micro-batch that fits; none if not even the longest sequence alone does.
std::optional<Change> fewer_tokens(const MemoryShape& shape, int64_t longest,
                                   const std::function<bool(const MemoryShape&)>& fits) {
  const int64_t least = (longest + kTokenStep - 1) / kTokenStep * kTokenStep;
  for (int64_t tokens = (shape.tokens - 1) / kTokenStep * kTokenStep;
       tokens >= std::max(least, kTokenStep);
       tokens -= std::max(kTokenStep, tokens / 16 / kTokenStep * kTokenStep)) {
    MemoryShape less = with_tokens(shape, tokens);
    if (fits(less)) return Change{fmt::format("batch.max_tokens = {}", tokens), less};
  }
  return std::nullopt;
}

// From what costs a little time to what trains something else.
std::optional<Change> smallest_change(const MemoryShape& shape, int64_t longest,
                                      const std::function<bool(const MemoryShape&)>& fits) {
  Change head{fmt::format("head_mb = {}", kSmallHeadMb), shape};
  head.shape.head_mb = std::min(shape.head_mb, kSmallHeadMb);
  if (fits(head.shape)) return head;
  Change again{"recompute = true", shape};
  again.shape.recompute = true;
  if (fits(again.shape)) return again;
  if (auto fewer = fewer_tokens(shape, longest, fits)) return fewer;
  head.shape.recompute = true;
  if (auto fewer = fewer_tokens(head.shape, longest, fits)) {
    return Change{again.text + ", " + head.text + ", " + fewer->text, fewer->shape};
  }
  if (shape.adapter) return std::nullopt;
  Change lora{"lora = { rank = 16 }", shape};
  lora.shape.adapter = AdapterOptions{};
  if (fits(lora.shape)) return lora;
  lora.text += ", recompute = true, dtype = \"bf16\"";
  lora.shape.recompute = true;
  lora.shape.dtype = c10::ScalarType::BFloat16;
  if (fits(lora.shape)) return lora;
  lora.shape.head_mb = head.shape.head_mb;
  if (auto fewer = fewer_tokens(lora.shape, longest, fits)) {
    return Change{lora.text + ", " + head.text + ", " + fewer->text, fewer->shape};
  }
  return std::nullopt;
}

}  // namespace

int64_t available_bytes(const std::filesystem::path& root) {
  if (const char* own = std::getenv("XRUN_MEMORY_MB"); own != nullptr && own[0] != '\0') {
    const auto mb = number_from(own);
    XRUN_CHECK(mb && *mb > 0 && *mb < kMost / kMb,
               "XRUN_MEMORY_MB is \"{}\", wanted a whole number of MB above 0", own);
    return *mb * kMb;
  }
  const auto kib = named_number(root / "proc/meminfo", "MemAvailable:");
  const int64_t system = kib && *kib < (kMost >> 10) ? *kib << 10 : kMost;
  const int64_t left = std::min(system, left_in_groups(root));
  return left == kMost ? 0 : std::max<int64_t>(left, 1);
}

void check_weights_fit(const ModelConfig& config, c10::ScalarType dtype, int64_t available,
                       const std::string& where) {
  const int64_t bytes = weight_bytes(config, dtype);
  XRUN_CHECK(available == 0 || bytes <= available,
             "{}: the weights need {} as {}, {} are available; take a smaller model{}", where,
             text_of(bytes), dtype_name(dtype), text_of(available),
             dtype == c10::ScalarType::Float ? ", or load it as bf16 where it is not trained" : "");
}

void check_memory(const ModelConfig& config, const MemoryShape& shape, int64_t longest,
                  int64_t held, int64_t available) {
  const auto need = [&](const MemoryShape& one) { return total_bytes(memory_plan(config, one)); };
  const auto fits = [&](const MemoryShape& one) { return need(one) - held <= available; };
  if (available == 0 || fits(shape)) return;
  const std::vector<MemoryKind> plan = memory_plan(config, shape);
  const std::optional<Change> change = smallest_change(shape, longest, fits);
  throw Error(fmt::format(
      "the run needs about {} ({}), {} are available{}; {}", text_of(total_bytes(plan)),
      describe_kinds(plan), text_of(available), held > 0 ? " beside what is loaded" : "",
      change ? fmt::format("{} makes it {}", change->text, text_of(need(change->shape)))
             : "no setting makes it fit: take a smaller model"));
}

}  // namespace xrun
