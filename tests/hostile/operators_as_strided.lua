-- expect: error is not for a recipe
require("xrun").ones({ 2 }):as_strided({ 1000 }, { 1 })
