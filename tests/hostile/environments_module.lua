-- expect: error `module` is not for a recipe that is not trusted
module("x", package and package.seeall)
