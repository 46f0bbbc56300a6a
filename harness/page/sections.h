// The sections of the page, one file each: what a run says about one question, or nothing.
#pragma once

#include "harness/page/parts.h"

namespace h3::page {

Markup verdict_section(const Run& run);                          // closed or not, and of what
Markup drift_section(const Run& run);                            // nodes x blocks
Markup bounds_section(const Run& run);                           // every error beside its bound
Markup depth_section(const Run& run, std::vector<File>& files);  // error against depth
Markup rounding_section(const Run& run,
                        std::vector<File>& files);  // histograms in ulp, growth inside a block
Markup beside_provider(const Run& run);             // of it, nodes beside what is recorded of the provider
Markup detection_section(const Run& run, std::vector<File>& files);  // what the gates would have caught
Markup repeat_section(const Run& run);                               // runs x nodes: the same bytes or not
Markup generation_section(const Run& run, std::vector<File>& files);
Markup cases_section(const Run& run);
Markup comparison_section(const Run& run, const Run& against);
Markup sources_section(const Run& run);  // what the page was made of

}  // namespace h3::page
