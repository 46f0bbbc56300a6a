# Fuzz targets (conformance/fuzz): readers of files that somebody else may have written. With H3_FUZZ (Clang) each one is
# a libFuzzer program; otherwise it replays its corpus and a fixed number of inputs made from it, which is what CTest runs.
add_custom_target(h3_fuzz)
function(add_fuzz_target name)
  cmake_parse_arguments(fuzz "" "RUNS" "SOURCES;LIBRARIES;CORPUS" ${ARGN})
  if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/conformance/fuzz/corpus/${name})
    list(APPEND fuzz_CORPUS conformance/fuzz/corpus/${name})
  endif()
  list(TRANSFORM fuzz_CORPUS PREPEND ${CMAKE_SOURCE_DIR}/)
  add_executable(h3_fuzz_${name} conformance/fuzz/${name}.cpp ${fuzz_SOURCES})
  target_link_libraries(h3_fuzz_${name} PRIVATE h3_model ${fuzz_LIBRARIES})
  set_target_properties(h3_fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  add_dependencies(h3_fuzz h3_fuzz_${name})
  if(H3_FUZZ)
    target_link_options(h3_fuzz_${name} PRIVATE -fsanitize=fuzzer)
    list(JOIN fuzz_CORPUS "\n" corpora)
    file(WRITE ${CMAKE_BINARY_DIR}/fuzz_${name}.txt "${corpora}\n")  # for ctest/nightly.sh
  else()
    target_sources(h3_fuzz_${name} PRIVATE conformance/fuzz/replay.cpp)
    add_test(NAME fuzz_${name} COMMAND h3_fuzz_${name} --runs ${fuzz_RUNS} ${fuzz_CORPUS})
    set_tests_properties(fuzz_${name} PROPERTIES LABELS host TIMEOUT 120)
  endif()
endfunction()

add_fuzz_target(safetensors RUNS 50000)
add_fuzz_target(hdf5 RUNS 5000 LIBRARIES h3_fixtures)
add_fuzz_target(contract RUNS 20000 CORPUS fixtures/generation)
add_fuzz_target(ensemble RUNS 20000 SOURCES harness/full_model/full_model_ensemble.cpp)
add_fuzz_target(ledger RUNS 10000 SOURCES harness/report/ledger.cpp ctest/verdict.cpp ctest/junit.cpp
                CORPUS ctest/recorded/parallel_nccl)
add_fuzz_target(required RUNS 20000 SOURCES ctest/required.cpp ctest/child.cpp ctest/files.cpp
                CORPUS ctest/recorded/parallel_nccl)
