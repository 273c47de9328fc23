// Fields of a micro-batch by name: those of its data, those that a recipe assigned, extra columns.

#include <algorithm>

#include "core/base/error.h"
#include "core/base/suggest.h"
#include "core/model/ops/device.h"
#include "core/train/micro_batch.h"
#include "core/train/pack_tensor.h"

namespace xrun {

namespace {

constexpr const char* kOwnFields[] = {"group",  "length", "pair",  "row",
                                      "source", "tokens", "weight"};

}  // namespace

void MicroBatch::set_field(const std::string& name, at::Tensor value, bool by_row) {
  strings_.erase(name);
  fields_[name] = {on_device(value, device()), by_row};
}

void MicroBatch::set_strings(const std::string& name, std::vector<std::string> values) {
  strings_[name] = std::move(values);
}

const std::vector<std::string>* MicroBatch::strings(std::string_view name) const {
  const auto found = strings_.find(name);
  return found == strings_.end() ? nullptr : &found->second;
}

at::Tensor MicroBatch::field(std::string_view name, bool* by_row) const {
  *by_row = false;
  if (auto found = fields_.find(name); found != fields_.end()) {
    *by_row = found->second.by_row;
    return found->second.value;
  }
  if (const at::Tensor own = own_field(name); own.defined()) return on_device(own, device());
  XRUN_CHECK(strings(name) == nullptr, "the field \"{}\" holds strings, which no tensor can", name);
  const std::string near = nearest_name(name, field_names());
  throw Error(fmt::format("this batch has no field \"{}\"{}", name,
                          near.empty() ? std::string("; assign it to the batch first")
                                       : fmt::format("; did you mean \"{}\"?", near)));
}

at::Tensor MicroBatch::own_field(std::string_view name) const {
  if (name == "row") return ids(pack_.row_id);
  if (name == "pair") return ids(pack_.pair_id);
  if (name == "group") return ids(pack_.group_id);
  if (name == "source") return ids(pack_.source);
  if (name == "weight") return floats(pack_.weight);
  if (name == "tokens") {
    const at::Tensor borders = ids(pack_.cu_seqlens);
    return borders.slice(0, 1).sub(borders.slice(0, 0, borders.size(0) - 1));
  }
  if (name == "length") {
    std::vector<int64_t> length(static_cast<size_t>(segment_count()), 0);
    for (int32_t s : pack_.rows.segment) ++length[static_cast<size_t>(s)];
    return ids(length);
  }
  return {};
}

std::vector<std::string> MicroBatch::own_field_names() {
  return {std::begin(kOwnFields), std::end(kOwnFields)};
}

std::vector<std::string> MicroBatch::field_names() const {
  std::vector<std::string> names = own_field_names();
  for (const auto& [name, field] : fields_) names.push_back(name);
  for (const auto& [name, values] : strings_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace xrun
