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

// The operations of a model that work on rows: our kernels, and the calls of LibTorch that remain.
std::vector<RowOperation> forward_row_operations();

// Returns the names of the operations for which some row differs in a bit alone, among fewer rows,
// in another place or with one thread. Takes milliseconds; uses no random numbers.
std::vector<std::string> find_dependent_rows(const std::vector<RowOperation>& operations);

// Returns the notice of the opening report, "" if no operation breaks the rule. The result is
// remembered under $XRUN_CACHE/measured/rows/ (measured_value.h); a damaged file is measured again.
std::string dependent_rows_notice(
    const std::vector<RowOperation>& operations = forward_row_operations());

}  // namespace xrun
