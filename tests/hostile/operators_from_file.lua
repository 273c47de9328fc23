-- expect: error there is no operator aten::from_file for recipes
require("xrun").ops.aten.from_file("@OUTSIDE@/new", true, 4096)
