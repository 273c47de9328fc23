// The main of every test program.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  std::fflush(nullptr);
  // As tools/xrun.cpp ends: LibTorch's static destructors take 0.1 s.
  ::_exit(status);
}
