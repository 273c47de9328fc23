-- expect: error there is no module `package`
print(require("package").loaded)
