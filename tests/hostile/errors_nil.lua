-- expect: error 
error(nil)
