/* Libraries that say what they are not: without COMPUTES one that computes no node, otherwise one that lacks
 * the backward it claims, or wants its tensors on a GPU. */
#include <stddef.h>

#include "harness/candidate/h3_candidate.h"

#ifndef COMPUTES
#define COMPUTES 0
#endif

int h3_candidate_abi(void) { return H3_CANDIDATE_ABI; }
const char* h3_candidate_name(void) { return "none"; }
int h3_candidate_computes(const char* node) {
  (void)node;
  return COMPUTES;
}
const char* h3_candidate_run(const struct h3_call* call) {
  (void)call;
  return "not computed";
}
#ifdef MEMORY
int h3_candidate_memory(void) { return MEMORY; }
#endif
