// The architectures' descriptions, for the list in registry.cpp.
#pragma once

#include "models/registry.h"

namespace satformer {

Architecture transformer_architecture();
Architecture resformer_architecture();
Architecture satformer_architecture();
Architecture denseformer_architecture();
Architecture muddformer_architecture();
Architecture hyperconnections_architecture();

}  // namespace satformer
