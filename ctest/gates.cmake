# Gates: a label, a folder of claims, a list of required cases.
enable_testing()

if(NOT GTest_FOUND)
  message(STATUS "h3: no GoogleTest: the gates are not built")
  return()
endif()

# Tests are linked as sources: a linker drops test objects out of a static library that nothing refers to.
file(GLOB_RECURSE conformance CONFIGURE_DEPENDS conformance/*.cpp)
add_executable(h3_conformance ${conformance})
target_link_libraries(h3_conformance PRIVATE h3_harness GTest::gtest)
set_target_properties(h3_conformance PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
