-- expect: error `package` is not for a recipe that is not trusted
package.loadlib("libc.so.6", "system")
