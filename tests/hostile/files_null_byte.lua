-- expect: error 
require("xrun").policy("./tiny\0/../../outside/model/x")
