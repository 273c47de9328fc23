-- expect: error may not be read
-- linked.lua is a link to a file outside.
print(require "linked")
