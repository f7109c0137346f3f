// libFuzzer's entry: any bytes at all as a GGUF file. `make fuzz-gguf` builds and runs it.
#include "walk_gguf.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static volatile uint64_t sink;
  sink = ac4k::gguf::walk(bytes, size).sum;
  (void)sink;
  return 0;
}
