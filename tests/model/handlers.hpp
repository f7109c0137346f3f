// Families of instructions; each says whether the name is one of its own.
#pragma once

#include "machine.hpp"

namespace model {

bool resolve_arithmetic(Instruction* instruction, const std::string& name);
bool resolve_memory(Instruction* instruction, const std::string& name);
bool resolve_warp(Instruction* instruction, const std::string& name);

}  // namespace model
