// What the files of the avx512 level share.
#pragma once

#include "cpu/common/table.hpp"

namespace ac4k::cpu::avx512 {

extern const GemmKernels kGemmF32, kGemmF64, kGemmF16, kGemmBF16;
extern const FewRowsKernels kFewRowsF32, kFewRowsF64, kFewRowsF16, kFewRowsBF16;
extern const RopeKernels kRope;
extern const ElementwiseKernels kElementwise;
extern const QuantizeKernels kQuantize;
extern const ActivationKernels kActivations;
extern const NormKernels kNorms;
extern const GgufKernels kGguf;
extern const DecodeKernels kDecode, kDecodeVnni;
extern const DecodeKernels kDecodeVbmi;  // of q2_k and q3_k alone
extern const PanelKernels kPanelsF32, kPanelsBF16;
extern const LinearKernels kLinear;

}  // namespace ac4k::cpu::avx512
