-- expect: error is not a name of a global
_G[{}] = 1
