-- expect: alone error coroutine.yield outside a coroutine of the recipe's own
coroutine.yield(1)
