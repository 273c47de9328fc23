-- expect: error deep
error("deep", 1e9)
