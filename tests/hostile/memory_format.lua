-- expect: error invalid option '%999' to 'format'
print(#("%99999999d"):format(1))
