-- expect: error 
print(#("%99999999d"):format(1))
