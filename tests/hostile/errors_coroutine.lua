-- expect: error thread
error(coroutine.create(print))
