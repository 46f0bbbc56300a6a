# Gates for a CDash server: their numbers, plotted over time, beside CTest's own test table.
#
#   ctest -S ctest/cdash.cmake -DBUILD=build -DLABEL=^block0$ -DSITE=a-name-for-this-machine -DURL=https://cdash.example.org/submit.php?project=H3
#
# Without URL nothing is sent: BUILD/Testing/<time>/Test.xml is what would be. Of each gate: cases required and passed,
# seconds, and the largest share of a limit that any case used. That file is CTest's own: beside SITE it has the host's name
# and the paths of the build, which an evidence folder has not.
foreach(needed BUILD LABEL)
  if(NOT DEFINED ${needed})
    message(FATAL_ERROR "cdash.cmake: -D${needed}=... is needed")
  endif()
endforeach()
if(NOT DEFINED SITE)
  set(SITE node)
endif()
get_filename_component(CTEST_SOURCE_DIRECTORY ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
get_filename_component(CTEST_BINARY_DIRECTORY ${BUILD} ABSOLUTE)
set(CTEST_SITE ${SITE})
set(CTEST_BUILD_NAME h3)
set(CTEST_CUSTOM_MAXIMUM_PASSED_TEST_OUTPUT_SIZE 200000)
set(CTEST_CUSTOM_MAXIMUM_FAILED_TEST_OUTPUT_SIZE 2000000)
ctest_start(Experimental)
ctest_test(INCLUDE_LABEL ${LABEL} RETURN_VALUE failed CAPTURE_CMAKE_ERROR no_tests)
if(DEFINED URL)
  set(CTEST_SUBMIT_URL ${URL})
  ctest_submit(RETURN_VALUE not_sent)
endif()
file(GLOB results ${CTEST_BINARY_DIRECTORY}/Testing/*/Test.xml)
if(failed OR no_tests OR not_sent OR NOT results)
  message(FATAL_ERROR "cdash.cmake: a gate is not closed, no gate has this label, or nothing was sent")
endif()
