// What the files of the amx level share.
#pragma once

#include "cpu/common/table.hpp"

namespace ac4k::cpu::amx {

extern const PanelKernels kPanelsBF16, kPanelsSplit;

}  // namespace ac4k::cpu::amx
