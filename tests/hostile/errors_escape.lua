-- expect: error red
-- The message must not reach the terminal as it is.
error("\27[31mred\27]52;c;aGk=\7")
