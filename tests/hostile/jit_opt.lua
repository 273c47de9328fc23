-- expect: error there is no module `jit.opt`
require("jit.opt").start(3)
