# Everything the suite links, found once. What is missing switches off what needs it, with one line.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest)
find_package(pugixml)  # tests read their own XML with it
find_package(benchmark QUIET)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT TARGET hdf5::hdf5)
  add_library(hdf5::hdf5 INTERFACE IMPORTED)
  target_include_directories(hdf5::hdf5 INTERFACE ${HDF5_INCLUDE_DIRS})
  target_link_libraries(hdf5::hdf5 INTERFACE ${HDF5_LIBRARIES})
endif()

# Executables hold HDF5 itself where there is a static one: Debian's shared library brings libcurl and thirty more along,
# for remote files. (Its objects are not position independent; shared libraries of ours link the shared one.)
set(H3_HDF5 hdf5::hdf5)
find_library(HDF5_STATIC_LIBRARY NAMES libhdf5_serial.a libhdf5.a PATH_SUFFIXES hdf5/serial)
find_library(SZ_STATIC_LIBRARY libsz.a)
find_library(AEC_STATIC_LIBRARY libaec.a)
find_library(Z_STATIC_LIBRARY libz.a)
if(HDF5_STATIC_LIBRARY AND SZ_STATIC_LIBRARY AND AEC_STATIC_LIBRARY AND Z_STATIC_LIBRARY)
  set(in_an_executable $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
  add_library(h3_hdf5 INTERFACE)
  target_include_directories(h3_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
  target_link_libraries(h3_hdf5 INTERFACE
    $<${in_an_executable}:${HDF5_STATIC_LIBRARY};${SZ_STATIC_LIBRARY};${AEC_STATIC_LIBRARY};${Z_STATIC_LIBRARY};m>
    $<$<NOT:${in_an_executable}>:hdf5::hdf5>
    ${CMAKE_DL_LIBS})
  set(H3_HDF5 h3_hdf5)
endif()

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(h3_xxhash INTERFACE)
target_include_directories(h3_xxhash INTERFACE ${XXHASH_INCLUDE_DIR})
