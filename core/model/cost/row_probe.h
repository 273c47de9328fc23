#pragma once
// A probe of this machine: it finds forward operations that, in fp32 on the CPU, give a row
// different bits when other rows are computed beside it.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace xrun {

// A forward operation on rows [n, W] fp32, one result for each row.
struct RowOperation {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> apply;
};

// Returns the operations of a forward that work on rows: our kernels, and its calls of LibTorch.
std::vector<RowOperation> forward_row_operations();

// Returns the names of the operations for which a row differs in any bit if it is computed alone,
// among fewer rows, in another place or with one thread. Takes milliseconds; uses no random
// numbers. Sets the number of threads for a moment, so nothing else may compute meanwhile.
std::vector<std::string> find_dependent_rows(const std::vector<RowOperation>& operations);

// Returns the notice for the report before step 0, "" if no row depends on others. The result is
// remembered under $XRUN_CACHE/measured/rows/ (measured_value.h); if its file is damaged, the
// machine is measured again.
std::string dependent_rows_notice(
    const std::vector<RowOperation>& operations = forward_row_operations());

}  // namespace xrun
