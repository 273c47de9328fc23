-- expect: error there is no operator aten::_foreach_add for recipes
local xrun = require "xrun"
xrun.ops.aten._foreach_add(xrun.ones({ 2 }), 1)
