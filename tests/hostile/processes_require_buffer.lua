-- expect: error there is no module `string.buffer`
print(require "string.buffer")
