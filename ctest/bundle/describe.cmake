# What a bundle says about itself: the git tree that it was built from (source.json, for receipts) and the licences of the
# libraries that it carries, as their packages state them.
set(bundle $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX})
function(git out)
  execute_process(COMMAND git -C ${source} ${ARGN} OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
git(commit rev-parse --verify HEAD)
git(tree rev-parse --verify HEAD^{tree})
git(changes status --porcelain)
if(commit)
  string(COMPARE EQUAL "${changes}" "" clean)
  string(REPLACE 1 true clean ${clean})
  string(REPLACE 0 false clean ${clean})
  file(WRITE ${bundle}/source.json "{\"commit\": \"${commit}\", \"tree\": \"${tree}\", \"clean\": ${clean}}\n")
else()
  file(WRITE ${bundle}/source.json "null\n")
endif()

# Copied, or linked in: HDF5 with its compression, GoogleTest, and headers.
foreach(package libhdf5-dev libaec-dev zlib1g-dev libgtest-dev nlohmann-json3-dev libcli11-dev
                libxxhash-dev libssl3 libssl3t64 libfmt9 libpugixml1v5)
  set(copyright /usr/share/doc/${package}/copyright)
  if(EXISTS ${copyright})
    configure_file(${copyright} ${bundle}/licenses/${package}.txt COPYONLY)
  endif()
endforeach()
