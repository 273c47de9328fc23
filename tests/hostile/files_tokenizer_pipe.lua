-- expect: error is not a regular file
-- Its tokenizer.json is a named pipe that nobody writes to.
require("xrun").tokenizer("./pipe_model")
