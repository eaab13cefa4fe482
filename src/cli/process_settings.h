// Settings of the OpenMP runtime and of malloc, which read them when a process starts.
#pragma once

namespace satformer::cli {

// Starts the program once more, as the same process, with
// - a short spin: threads that wait at the end of a parallel region spin for a while before they sleep, and with
//   other processes on the same cores the long default wastes the time that the awaited thread needs;
// - memory in huge pages where the system has them;
// - `trains`: memory that is kept for the next step instead of given back and fetched again page by page.
// Whatever of these the user has set stays (GOMP_SPINCOUNT, OMP_WAIT_POLICY; GLIBC_TUNABLES, MALLOC_*_). Processes
// that this one starts do not inherit the settings.
void start_with_settings(char** argv, bool trains);

}  // namespace satformer::cli
