// Which layouts a claim about block 0 is held against, and on which engine.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#ifdef H3_HAVE_CUDA
#include "kernels/cuda/device.h"
#endif

namespace h3 {

struct LayoutRow {
  const char* layout;
  const char* engine;
};
inline void PrintTo(const LayoutRow& row, std::ostream* out) { *out << row.layout << '_' << row.engine; }

const auto kRowName = [](const auto& info) { return testing::PrintToString(info.param); };

// Why this machine cannot run the engine; empty when it can.
inline std::string why_not(const std::string& engine) {
#ifdef H3_HAVE_CUDA
  if (engine == "cuda") return cuda::why_unavailable();
#endif
  return engine == "cpu" ? "" : "no such engine in this build";
}

#define H3_NEEDS_ENGINE(engine)                                  \
  if (const std::string why = h3::why_not(engine); !why.empty()) \
  GTEST_SKIP() << "no_device: no Hopper GPU: " << why

}  // namespace h3
