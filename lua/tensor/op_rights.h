#pragma once
// The operators that a recipe may call if it is not trusted.

#include <string_view>

namespace xrun {

// Throws Error, with the option that allows it, if recipes are not trusted in this process and
// ATen's operator is not on the list. Operators of other namespaces are ours and check their
// arguments.
void check_op_rights(std::string_view op_namespace, std::string_view name);

}  // namespace xrun
