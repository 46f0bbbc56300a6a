# Gates: a label, a folder of claims, a list of required cases.
#
# A gate is one CTest entry: h3_gate runs all its cases in one process and decides from the run's ledger. No discovery
# and no skip pattern: both let a gate pass whose cases never ran. `ctest -L '^host$'` leaves its evidence under
# <build>/evidence/host; ctest/README.md says what each file is.
enable_testing()

# The judge links nothing that it judges.
file(GLOB gate_parts CONFIGURE_DEPENDS ctest/*.cpp ctest/evidence/*.cpp)
list(REMOVE_ITEM gate_parts ${CMAKE_SOURCE_DIR}/ctest/gate.cpp ${CMAKE_SOURCE_DIR}/ctest/mutants.cpp)
add_library(h3_gate_parts STATIC ${gate_parts})
target_link_libraries(h3_gate_parts PUBLIC h3_model ${CMAKE_DL_LIBS})
if(NOT GTest_FOUND OR NOT pugixml_FOUND)
  message(STATUS "h3: no GoogleTest or no pugixml: the gates are not built")
  return()
endif()
add_executable(h3_gate ctest/gate.cpp harness/report/ledger.cpp)
target_link_libraries(h3_gate PRIVATE h3_gate_parts CLI11::CLI11)

# The reviewer's program has the CPU twins and no GPU code: the twins' objects without the kernels that h3_kernels brings
# along, what walks a block with them, and what reads the provider's record.
file(GLOB reviewer CONFIGURE_DEPENDS ctest/evidence/reviewer/*.cpp)
add_executable(h3_evidence ${reviewer} harness/report/ledger.cpp harness/replay/twin_digests.cpp harness/execution/block_inputs.cpp
               harness/execution/boundary_nodes.cpp harness/execution/execution.cpp harness/execution/execution_cpu.cpp harness/execution/graph_values.cpp
               harness/execution/node_output.cpp
               harness/compare/provider_record.cpp harness/compare/compare.cpp $<TARGET_OBJECTS:h3_kernels>)
target_link_libraries(h3_evidence PRIVATE h3_gate_parts h3_fixtures CLI11::CLI11)

# Tests are linked as sources: a linker drops test objects out of a static library that nothing refers to.
file(GLOB_RECURSE conformance CONFIGURE_DEPENDS conformance/*.cpp)
list(FILTER conformance EXCLUDE REGEX "/conformance/(bench|fuzz)/")
add_executable(h3_conformance ${conformance})
target_link_libraries(h3_conformance PRIVATE h3_harness h3_page h3_gate_parts GTest::gtest pugixml::pugixml)

# A binary that goes wrong in every way which is known to look like success.
file(GLOB false_greens CONFIGURE_DEPENDS ctest/false_greens/*.cpp)
add_executable(h3_false_greens ${false_greens} conformance/main.cpp conformance/listener.cpp conformance/claims.cpp)
target_link_libraries(h3_false_greens PRIVATE h3_harness GTest::gtest)

# Candidates as somebody else would build them: right ones, wrong ones, and some that are none.
function(add_candidate name source)
  add_library(h3_${name} SHARED conformance/candidates/${source})
  target_compile_definitions(h3_${name} PRIVATE ${ARGN})
  set_target_properties(h3_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  add_dependencies(h3_conformance h3_${name})
endfunction()
add_candidate(example_candidate example.c)
add_candidate(example_candidate_version_1 example.c VERSION=1)
add_candidate(example_candidate_fused example.c FUSED)
add_candidate(example_candidate_ungated example.c UNGATED)
add_candidate(example_candidate_cut example.c CUT)
add_candidate(nothing_computed none.c)
add_candidate(no_backward none.c COMPUTES=3)
add_candidate(device_memory none.c COMPUTES=1 MEMORY=H3_CUDA)
add_candidate(other_version other_version.c)
add_candidate(no_candidate no_candidate.c)
if(TARGET h3_kernels_cuda)
  function(add_cuda_candidate name)
    add_candidate(${name} example_cuda.cu ${ARGN})
    target_compile_options(h3_${name} PRIVATE --fmad=false -Xcompiler=-Wall,-ffp-contract=off)
  endfunction()
  add_cuda_candidate(example_cuda)
  add_cuda_candidate(example_cuda_fused FUSED)
  add_cuda_candidate(example_cuda_ungated UNGATED)
  add_cuda_candidate(example_cuda_too_many_threads THREADS=2048)
endif()

h3_small(h3_gate_parts h3_gate h3_evidence h3_conformance h3_false_greens)

# A machine with a GPU, as far as NVIDIA's management library would say.
add_library(h3_nvml_stub SHARED conformance/host/nvml_stub.c)
set_target_properties(h3_nvml_stub PROPERTIES PREFIX "" OUTPUT_NAME libnvidia-ml SUFFIX .so.1
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/nvml_stub)

set_target_properties(h3_conformance h3_false_greens h3_gate h3_evidence PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
add_dependencies(h3_conformance h3 h3_gate h3_evidence h3_false_greens h3_nvml_stub)  # its cases run them

# Builds the cases once for each kernel mutant (ctest/mutants.json), beside this build, and runs them.
add_executable(h3_mutants EXCLUDE_FROM_ALL ctest/mutants.cpp)
target_link_libraries(h3_mutants PRIVATE h3_harness h3_gate_parts CLI11::CLI11)
set_target_properties(h3_mutants PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# add_gate(<name> TIME_LIMIT <seconds> [LABEL <label>] [NEEDS_GPU] [GPUS <count>] [NEEDS_SOURCE])
# NEEDS_GPU: where every case is skipped for want of a Hopper GPU, CTest shows the gate as skipped. It is not closed.
# GPUS: how many CTest has to assign (--resource-spec-file); on a machine that has them it is refused without.
# NEEDS_SOURCE: its cases are about the sources and the build, so that a bundle does not have it.
add_custom_target(update_required COMMENT "Lists of required cases")
function(add_gate name)
  cmake_parse_arguments(gate "NEEDS_GPU;NEEDS_SOURCE" "TIME_LIMIT;LABEL;GPUS" "" ${ARGN})
  if(NOT gate_LABEL)
    set(gate_LABEL ${name})
  endif()
  set(assigned)
  if(gate_GPUS)
    set(assigned --gpus ${gate_GPUS})
  else()
    set(gate_GPUS 0)
  endif()
  set(required ${CMAKE_SOURCE_DIR}/ctest/required/${name}.txt)
  add_test(NAME ${name}
           COMMAND h3_gate --gate ${name} --binary $<TARGET_FILE:h3_conformance> --required ${required} --evidence
                   ${CMAKE_BINARY_DIR}/evidence/${name} --source ${CMAKE_SOURCE_DIR} --time-limit ${gate_TIME_LIMIT}
                   ${assigned})
  math(EXPR timeout "${gate_TIME_LIMIT} + 60")  # h3_gate ends the run itself and still writes the evidence
  # A gate takes every core, or the GPU; with ctest -j2 one of each kind runs at a time.
  set_tests_properties(${name} PROPERTIES LABELS ${gate_LABEL} TIMEOUT ${timeout} RESOURCE_LOCK cores SKIP_RETURN_CODE 77)
  if(gate_NEEDS_GPU)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK gpu ENVIRONMENT H3_ALLOW_SKIP=1)
  endif()
  if(gate_GPUS)
    set_tests_properties(${name} PROPERTIES RESOURCE_GROUPS "${gate_GPUS},gpus:1")
  endif()
  if(NOT gate_NEEDS_SOURCE)
    set(needs)
    if(gate_NEEDS_GPU)
      set(needs " gpu")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY h3_bundle_gates
                 "${name} ${gate_LABEL} ${gate_TIME_LIMIT} ${gate_GPUS}${needs}\n")
  endif()
  add_custom_command(TARGET update_required POST_BUILD
                     COMMAND h3_gate --gate ${name} --binary $<TARGET_FILE:h3_conformance> --required ${required}
                             --update-required)
endfunction()
add_dependencies(update_required h3_gate h3_conformance)

add_gate(host NEEDS_SOURCE TIME_LIMIT 1200)
add_gate(rows TIME_LIMIT 3600)
add_gate(block0 TIME_LIMIT 7200)
add_gate(fullmodel TIME_LIMIT 600)
add_gate(generation TIME_LIMIT 1200)
add_gate(parallel TIME_LIMIT 1200)
if(TARGET h3_kernels_cuda)  # engine cuda of the same labels: one more list of required cases each
  add_gate(rows_cuda LABEL rows NEEDS_GPU TIME_LIMIT 1200)
  add_gate(block0_cuda LABEL block0 NEEDS_GPU TIME_LIMIT 1800)
  add_gate(generation_cuda LABEL generation NEEDS_GPU TIME_LIMIT 900)
  if(TARGET h3_golden_cuda)
    add_gate(fullmodel_cuda LABEL fullmodel NEEDS_GPU TIME_LIMIT 1800)
  endif()
  add_gate(parallel_cuda LABEL parallel NEEDS_GPU TIME_LIMIT 1800)
  add_gate(parallel_nccl LABEL parallel NEEDS_GPU GPUS 2 TIME_LIMIT 1800)  # by hand: as many as there are
  if(TARGET h3_golden_cutlass)
    add_gate(rows_cutlass LABEL rows NEEDS_GPU TIME_LIMIT 600)
  endif()
endif()

# Not a gate: how a build behaves whose flags change arithmetic.
add_test(NAME arithmetic_flags
         COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DSCRATCH=${CMAKE_BINARY_DIR}/arithmetic_flags
                 -DCUDA_COMPILER=${CMAKE_CUDA_COMPILER} -DGENERATOR=${CMAKE_GENERATOR}
                 -P ${CMAKE_SOURCE_DIR}/ctest/arithmetic_flags_test.cmake)
set_tests_properties(arithmetic_flags PROPERTIES LABELS host)

# Not a gate either: what other programs read in the files that a gate leaves. ./run setup installs the packages.
find_program(XMLLINT xmllint)
foreach(python /usr/bin/python3 python3)
  execute_process(COMMAND ${python} -c "import junitparser, jsonschema" RESULT_VARIABLE without_readers OUTPUT_QUIET ERROR_QUIET)
  if(XMLLINT AND without_readers EQUAL 0)
    add_test(NAME readers COMMAND ${python} ${CMAKE_SOURCE_DIR}/ctest/evidence/readers.py --misbehave ${CMAKE_BINARY_DIR}
                                  ${CMAKE_SOURCE_DIR}/ctest/recorded/parallel_nccl)
    set_tests_properties(readers PROPERTIES LABELS host TIMEOUT 300)
    break()
  endif()
endforeach()
if(NOT TEST readers)
  message(STATUS "h3: no xmllint, or no Python with junitparser and jsonschema: what they read of a gate is not tested")
endif()

# Nor what gates on GPUs have left behind: a machine without one reviews it, some digests by the CPU twins.
foreach(gate block0_cuda generation_cuda parallel_nccl)
  add_test(NAME recorded_${gate} COMMAND h3_evidence verify ${CMAKE_SOURCE_DIR}/ctest/recorded/${gate} --gate ${gate})
  set_tests_properties(recorded_${gate} PROPERTIES LABELS host)
endforeach()

# Nor is the bundle: installed, moved and write-protected, it runs without the tree that it was built from.
include(ctest/bundle.cmake)
add_test(NAME bundle COMMAND ${CMAKE_SOURCE_DIR}/ctest/bundle/test.sh ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
set_tests_properties(bundle PROPERTIES LABELS host TIMEOUT 300)

# Not a gate: the page in a real browser. Skipped without one, unless H3_REQUIRE_BROWSER=1 (.ci/run).
add_test(NAME page_in_browser
         COMMAND ${CMAKE_SOURCE_DIR}/ctest/page_in_browser.sh $<TARGET_FILE:h3> ${CMAKE_SOURCE_DIR}
                 ${CMAKE_BINARY_DIR}/page_in_browser)
set_tests_properties(page_in_browser PROPERTIES LABELS page TIMEOUT 600 SKIP_RETURN_CODE 77)
