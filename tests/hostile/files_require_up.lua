-- expect: error may not be read
print(require "../../outside/secret")
