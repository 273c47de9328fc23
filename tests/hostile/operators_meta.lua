-- expect: error argument `dtype` got "meta"
print(require("xrun").ones({ 2 }):to("meta"):item())
