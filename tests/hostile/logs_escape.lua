-- expect: alone harmless
-- The script finds no escape byte in the output.
print("\27]52;c;aGk=\7", "\27[2J", "\r\8")
