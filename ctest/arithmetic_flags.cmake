# A strict kernel's bits are those of one IEEE rounding per operation. nvcc has flags that break that for every kernel at
# once; a build that holds one of them leaves the strict kernels out. kernels/cuda/arithmetic.h checks the same on the GPU,
# for whatever reached the compiler another way.

# First flag of the list (as a person writes it on a command line) that changes arithmetic, else empty.
function(h3_find_flag_that_changes_arithmetic flags result)
  string(REGEX MATCH "(^|[ ;,])(--?use_fast_math|--?ftz[= ]true|--?prec-div[= ]false|--?prec-sqrt[= ]false|--?fmad[= ]true|-ffast-math|-Ofast)($|[ ;,])"
         found " ${flags} ")
  string(REGEX REPLACE "[;,]" " " found "${found}")
  string(STRIP "${found}" found)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# The same for everything that nvcc is going to see here.
function(h3_flag_that_changes_arithmetic result)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  h3_find_flag_that_changes_arithmetic(
    "${CMAKE_CUDA_FLAGS} ${CMAKE_CUDA_FLAGS_${type}} $ENV{NVCC_PREPEND_FLAGS} $ENV{NVCC_APPEND_FLAGS}" found)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()
