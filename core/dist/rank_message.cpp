// int64 | float64 | string: size int64, bytes | tensor: dtype int64 (-1: undefined), its sizes and
// its elements as strings. Little-endian, like every machine of a run.

#include "core/dist/rank_message.h"

#include <ATen/ops/empty.h>

#include "core/base/error.h"

namespace xrun {

MessageWriter& MessageWriter::int64(int64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

MessageWriter& MessageWriter::float64(double value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

MessageWriter& MessageWriter::string(std::string_view value) {
  int64(static_cast<int64_t>(value.size()));
  bytes_.append(value);
  return *this;
}

MessageWriter& MessageWriter::tensor(const at::Tensor& value) {
  if (!value.defined()) return int64(-1);
  const at::Tensor host = value.detach().cpu().contiguous();
  int64(static_cast<int64_t>(host.scalar_type()));
  list(host.sizes().vec());
  return string({static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
}

std::string_view MessageReader::take(size_t size) {
  XRUN_CHECK(size <= rest_.size(), "the message of another rank is truncated");
  const std::string_view bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return bytes;
}

int64_t MessageReader::int64() {
  int64_t value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

double MessageReader::float64() {
  double value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string_view MessageReader::string() { return take(static_cast<size_t>(int64())); }

at::Tensor MessageReader::tensor() {
  const int64_t type = int64();
  if (type < 0) return {};
  const std::vector<int64_t> sizes = list<int64_t>();
  const std::string_view bytes = string();
  at::Tensor value = at::empty(sizes, static_cast<at::ScalarType>(type));
  XRUN_CHECK(value.nbytes() == bytes.size(), "the message of another rank is truncated");
  if (!bytes.empty()) std::memcpy(value.mutable_data_ptr(), bytes.data(), bytes.size());
  return value;
}

}  // namespace xrun
