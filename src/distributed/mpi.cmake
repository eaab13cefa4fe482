# Open MPI for CPU ranks, where it is installed. Its C interface alone.
option(SATFORMER_MPI "Ranks started by mpirun and srun talk through MPI (needs libopenmpi-dev; off where it is missing)" ON)
if(SATFORMER_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS C)
endif()
if(MPI_C_FOUND)
  # By name and not as an imported target, so that the installed package needs no MPI of CMake's.
  set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/distributed/mpi_communicator.cpp" PROPERTIES
    COMPILE_DEFINITIONS SATFORMER_MPI INCLUDE_DIRECTORIES "${MPI_C_INCLUDE_DIRS}")
  target_link_libraries(satformer_distributed PUBLIC ${MPI_C_LIBRARIES})
else()
  message(STATUS "MPI: off; torchrun can start CPU ranks all the same")
endif()
