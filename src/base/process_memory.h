// Memory of this process, as Linux counts it.
#pragma once

namespace satformer {

double resident_bytes();       // now; 0 if it is not known
double peak_resident_bytes();  // at most so far, libraries included; 0 if it is not known

}  // namespace satformer
