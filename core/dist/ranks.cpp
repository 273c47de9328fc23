// Sums are of few values, so every rank gathers the values of all and adds them itself.

#include "core/dist/ranks.h"

#include <cstring>

#include "core/base/error.h"

namespace xrun {

void Ranks::sum(std::string_view label, std::vector<double>& values) {
  const size_t bytes = values.size() * sizeof(double);
  const std::vector<std::string> parts =
      gather(label, std::string(reinterpret_cast<const char*>(values.data()), bytes));
  std::vector<double> added(values.size(), 0.0);
  std::vector<double> part(values.size());
  for (size_t r = 0; r < parts.size(); ++r) {
    XRUN_CHECK(parts[r].size() == bytes, "\"{}\": rank {} has {} values, rank {} has {}", label, r,
               parts[r].size() / sizeof(double), rank(), values.size());
    if (bytes != 0) std::memcpy(part.data(), parts[r].data(), bytes);
    for (size_t i = 0; i < added.size(); ++i) added[i] += part[i];
  }
  values = std::move(added);
}

}  // namespace xrun
