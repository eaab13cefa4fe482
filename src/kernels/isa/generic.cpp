#include "kernels/isa/make_table.h"

namespace satformer::rows {

const IsaTable& generic_table() { return this_table; }

}  // namespace satformer::rows
