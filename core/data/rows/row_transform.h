#pragma once
// A recipe's own function over the rows of a source, before the row type reads them.

#include <memory>
#include <string>

#include "core/base/json.h"

namespace xrun {

// On one thread. What it gives depends on the row alone.
class RowTransform {
 public:
  virtual ~RowTransform() = default;
  // Changes the row in place; false: it is filtered out. `place` ("pairs.jsonl:17") is the row's.
  // Throws Error with the recipe's file and line if the function fails: that ends the build.
  virtual bool apply(Json& row, const std::string& place) = 0;
};

// Where workers get their own.
class RowTransformSource {
 public:
  virtual ~RowTransformSource() = default;
  virtual std::unique_ptr<RowTransform> make() const = 0;
  // The functions' text: part of the cache's key.
  virtual const std::string& source() const = 0;
};

}  // namespace xrun
