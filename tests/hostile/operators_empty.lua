-- expect: error is not for a recipe
require("xrun").empty({ 1000 })
