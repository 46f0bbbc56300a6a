// The subcommands of `h3`, one file each. A command registers its options and a callback; the callback
// returns nothing and reports a failed check by throwing CheckFailed after it has printed its findings.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "harness/report/grouped.h"

namespace h3::cli {

struct CheckFailed {};  // the command ran, and the answer is no: exit code 1

void add_fingerprint(CLI::App& app);
void add_checkpoint(CLI::App& app);
void add_replay(CLI::App& app);
void add_provider(CLI::App& app);
void add_fixtures(CLI::App& app);
void add_compare(CLI::App& app);
void add_capsule(CLI::App& app);
void add_dump(CLI::App& app);
void add_ulp(CLI::App& app);
void add_diagnose(CLI::App& app);
void add_gemm(CLI::App& app);
void add_fullmodel(CLI::App& app);
void add_generate(CLI::App& app);
void add_power(CLI::App& app);
void add_parallel(CLI::App& app);
void add_page(CLI::App& app);

}  // namespace h3::cli
