// The description of a matrix that the tensor memory accelerator copies boxes of.
#pragma once

namespace ac4k {

// What the driver encodes; a kernel only hands on its address.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

}  // namespace ac4k
