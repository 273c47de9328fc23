-- expect: error 
print(require("xrun").ones({ 2 }):to("meta"):item())
