// h3: the command line of the suite. Exit codes: 0 ok, 1 a check failed, 2 bad input.
#include <cstdio>
#include <exception>

#include "harness/cli/commands.h"

namespace {

// "h3 checkpoint check": the chain of subcommands that was asked for.
std::string command_of(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app.get_name() : app.get_name() + " " + command_of(*chosen.front());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Conformance suite for MiniMax-H3: fingerprints, weights, fixtures and comparisons.", "h3");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 ok, 1 a check failed, 2 bad input.\n'h3 COMMAND --help' shows examples.");
  h3::cli::add_fingerprint(app);
  h3::cli::add_checkpoint(app);
  h3::cli::add_replay(app);
  h3::cli::add_provider(app);
  h3::cli::add_fixtures(app);
  h3::cli::add_compare(app);
  h3::cli::add_capsule(app);
  h3::cli::add_dump(app);
  h3::cli::add_ulp(app);
  h3::cli::add_diagnose(app);
  h3::cli::add_gemm(app);
  h3::cli::add_fullmodel(app);
  h3::cli::add_generate(app);
  h3::cli::add_power(app);
  h3::cli::add_parallel(app);
  h3::cli::add_page(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s (--help shows how)\n", command_of(app).c_str(), error.what());
    return 2;
  } catch (const h3::cli::CheckFailed&) {
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", command_of(app).c_str(), error.what());
    return 2;
  }
}
