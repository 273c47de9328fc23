-- expect: error 
error(coroutine.create(print))
