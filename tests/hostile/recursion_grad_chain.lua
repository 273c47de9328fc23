-- expect: error wanted nil
-- A chain of gradients would be freed by recursion.
local xrun = require "xrun"
local last = xrun.ones({ 1 })
for _ = 1, 200000 do
  local one = xrun.ones({ 1 })
  one.grad = last
  last = one
end
last:close()
