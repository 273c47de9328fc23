-- expect: error there is no module `io`
require("io").open("@OUTSIDE@/secret.txt")
