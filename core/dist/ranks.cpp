// sum[i] = ((x0 + x1) + x2) + ...: added in rank order, so every rank gets the same bits.

#include "core/dist/ranks.h"

#include <cstring>

#include "core/base/error.h"

namespace xrun {

void Ranks::sum(std::string_view label, std::vector<double>& values) {
  const std::string own(reinterpret_cast<const char*>(values.data()),
                        values.size() * sizeof(double));
  const std::vector<std::string> all = gather(label, own);
  std::vector<double> sums(values.size(), 0.0), one(values.size());
  for (const std::string& bytes : all) {
    XRUN_CHECK(bytes.size() == own.size(), "{}: one rank has {} bytes to add, another {}", label,
               own.size(), bytes.size());
    if (!bytes.empty()) std::memcpy(one.data(), bytes.data(), bytes.size());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += one[i];
  }
  values = std::move(sums);
}

}  // namespace xrun
