-- expect: error xrun.policy: ./tiny
require("xrun").policy("./tiny\0/../../outside/model/x")
