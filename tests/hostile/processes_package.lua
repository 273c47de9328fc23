-- expect: error `package` is not for a recipe that is not trusted
package.cpath = "@OUTSIDE@/?.so"
