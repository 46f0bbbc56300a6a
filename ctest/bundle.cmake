# `cmake --install build --strip --prefix DIR`: a folder that runs elsewhere, without a compiler, this tree or write
# permission (ctest/bundle/run). Data lie in it as in the source tree; fixtures/path.h finds them.
#
# Left to the machine: glibc and libstdc++ (its own may be newer, not older), and what is opened while it runs: OpenBLAS,
# the CUDA libraries, NCCL.
set(bundled_programs h3 h3_gate h3_evidence h3_conformance)
set_target_properties(${bundled_programs} PROPERTIES INSTALL_RPATH $ORIGIN/../lib)
install(TARGETS ${bundled_programs} RUNTIME_DEPENDENCY_SET h3_libraries RUNTIME DESTINATION bin)
install(TARGETS h3_example_candidate h3_example_candidate_fused LIBRARY DESTINATION bin)
if(TARGET h3_example_cuda)  # cases of the gates on a GPU load them
  install(TARGETS h3_example_cuda h3_example_cuda_fused h3_example_cuda_ungated h3_example_cuda_too_many_threads LIBRARY DESTINATION bin)
endif()
install(RUNTIME_DEPENDENCY_SET h3_libraries DESTINATION lib
        PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|stdc\\+\\+|gcc_s)\\.so" "^lib(cuda|nvidia)")
install(DIRECTORY fixtures/ DESTINATION fixtures FILES_MATCHING PATTERN "*.h5" PATTERN "*.json" PATTERN "__pycache__" EXCLUDE
        REGEX "/(golden|layouts|small_block)\\.h5$" EXCLUDE)  # only gate host reads these
file(GLOB_RECURSE schemas RELATIVE ${CMAKE_SOURCE_DIR} harness/*.schema.json ctest/*.schema.json)
foreach(schema ${schemas})
  get_filename_component(folder ${schema} DIRECTORY)
  install(FILES ${schema} DESTINATION ${folder})
endforeach()
install(DIRECTORY ctest/required ctest/slurm DESTINATION ctest USE_SOURCE_PERMISSIONS)
install(FILES ctest/evidence/junit.xsd DESTINATION ctest/evidence)
install(DIRECTORY ctest/recorded/generation DESTINATION ctest/recorded)  # a case of gate generation verifies it
install(FILES ctest/mutants.json DESTINATION ctest)  # h3_conformance lists a case for each
install(FILES LICENSE DESTINATION .)
install(PROGRAMS ctest/bundle/run DESTINATION .)

get_property(gates GLOBAL PROPERTY h3_bundle_gates)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/gates.txt CONTENT "${gates}")
install(FILES ${CMAKE_BINARY_DIR}/gates.txt DESTINATION ctest)
install(CODE "set(source ${CMAKE_SOURCE_DIR})")
install(SCRIPT ctest/bundle/describe.cmake)
