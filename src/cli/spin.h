// Threads that wait at the end of a parallel region spin for a while before they sleep. With other processes on the
// same cores the long default wastes the time that the awaited thread needs.
#pragma once

namespace satformer::cli {

// The OpenMP runtime reads its settings when it is loaded, so the program starts itself once more with a short spin.
// Does nothing if GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, as it is after that start.
void limit_spinning(char** argv);

}  // namespace satformer::cli
