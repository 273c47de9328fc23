-- expect: error create_graph
-- So would gradients that hold the graphs of other gradients.
local xrun = require "xrun"
local last = xrun.ones({ 1 }, { requires_grad = true })
for _ = 1, 60000 do
  local one = xrun.ones({ 1 }, { requires_grad = true })
  local product = one * last
  product:backward(xrun.ones({ 1 }), { create_graph = true, inputs = { one } })
  product:close()
  last = one
end
last:close()
