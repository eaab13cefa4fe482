# satformer-parquet: reads Parquet for `satformer prepare` and `eval` with the headers and libraries of the pyarrow package, if
# tools/setup.sh could fetch it. A program of its own: Arrow's libraries export symbols that libtorch and others do too.
set(arrow_dir "${SATFORMER_DEPS_DIR}/pyarrow-26.0.1/pyarrow")
if(NOT EXISTS "${arrow_dir}/include/parquet/file_reader.h")
  message(STATUS "Parquet: off, no pyarrow at ${arrow_dir} ('make setup' fetches it)")
  return()
endif()
add_executable(satformer_parquet "${CMAKE_SOURCE_DIR}/src/data/parquet/main.cpp"
  "${CMAKE_SOURCE_DIR}/src/data/parquet/rows.cpp" "${CMAKE_SOURCE_DIR}/src/base/error.cpp")
set_target_properties(satformer_parquet PROPERTIES OUTPUT_NAME satformer-parquet INSTALL_RPATH "${arrow_dir}")
target_include_directories(satformer_parquet SYSTEM PRIVATE "${arrow_dir}/include")
target_link_libraries(satformer_parquet PRIVATE satformer_options nlohmann_json::nlohmann_json
  "${arrow_dir}/libparquet.so.2600" "${arrow_dir}/libarrow.so.2600")
# Arrow is built without sanitizers, and containers that cross the border would look overrun.
target_compile_options(satformer_parquet PRIVATE -fno-sanitize=all)
target_link_options(satformer_parquet PRIVATE -fno-sanitize=all)
