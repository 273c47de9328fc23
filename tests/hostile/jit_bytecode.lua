-- expect: error there is no module `jit.util`
require("jit.util").funcbc(print)
