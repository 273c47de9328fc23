-- expect: harmless
pcall(os.date, ("%c"):rep(1e5))
pcall(os.date, "%Ez", -2 ^ 60)
pcall(os.time, { year = 1e300, month = 1, day = 1 })
