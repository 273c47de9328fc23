-- expect: error is not a valid name of a global
_G[{}] = 1
