// The verdict as JUnit XML, in the subset that every reader understands: <testsuites> with one flat
// <testsuite>, one outcome element per case, a one-line message and the full text, at most ten properties a
// case, no absolute path. What did not run is <error type="not-run">, never <skipped>: several readers show a
// skip as success.
#pragma once

#include <string>

#include "ctest/verdict.h"

namespace h3::gate {

std::string junit_xml(const Verdict& verdict);

}  // namespace h3::gate
