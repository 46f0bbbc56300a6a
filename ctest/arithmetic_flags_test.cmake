# cmake -DSOURCE= -DSCRATCH= -DCUDA_COMPILER= -DGENERATOR= -P: flags that change arithmetic are found, others are not; and,
# with nvcc, a tree configured with --use_fast_math has no strict kernels, says so, and engine cuda refuses.
cmake_minimum_required(VERSION 3.25)
include(${SOURCE}/ctest/arithmetic_flags.cmake)

foreach(flags IN ITEMS "--use_fast_math" "-O3 -use_fast_math" "-ftz=true" "--ftz true" "--prec-div=false -O3" "-prec-sqrt=false"
        "-lineinfo --fmad=true" "-Xcompiler=-Wall,-ffast-math")
  h3_find_flag_that_changes_arithmetic("${flags}" found)
  if(NOT found)
    message(FATAL_ERROR "'${flags}' changes arithmetic and was not found")
  endif()
endforeach()
foreach(flags IN ITEMS "" "-O3 -lineinfo" "--fmad=false --ftz=false --prec-div=true --prec-sqrt=true" "-DNAME=use_fast_math_not")
  h3_find_flag_that_changes_arithmetic("${flags}" found)
  if(found)
    message(FATAL_ERROR "'${flags}' changes nothing, but '${found}' was found")
  endif()
endforeach()

if(NOT CUDA_COMPILER)
  message(STATUS "no nvcc here: a scratch tree was not configured")
  return()
endif()

file(REMOVE_RECURSE ${SCRATCH})
execute_process(COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${SCRATCH} -DCMAKE_CUDA_FLAGS=--use_fast_math
                        -DCMAKE_CUDA_COMPILER=${CUDA_COMPILER} -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
                RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "a tree with --use_fast_math does not configure:\n${said}")
endif()
if(NOT said MATCHES "engine cuda is left out: [^\n]*'--use_fast_math'")
  message(FATAL_ERROR "configured with --use_fast_math without a word about it:\n${said}")
endif()
file(READ ${SCRATCH}/compile_commands.json commands)
if(commands MATCHES "\\.cu[\" ]" OR commands MATCHES "H3_HAVE_CUDA")
  message(FATAL_ERROR "a strict kernel is compiled in spite of --use_fast_math")
endif()
if(NOT commands MATCHES "H3_WITHOUT_CUDA=[^\n]*--use_fast_math")
  message(FATAL_ERROR "engine cuda has no reason to refuse with")
endif()
file(REMOVE_RECURSE ${SCRATCH})
