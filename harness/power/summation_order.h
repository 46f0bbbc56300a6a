// Certificates of summation orders, found from outside. A huge term at place i and its negative at place j
// cancel when they meet; until then every term that is added to them is lost. So of terms that are otherwise
// 1, the sum says how many lie in the smallest part of the summation tree that holds both i and j, and that
// for enough pairs is the tree. Whoever sums in another order, or splits the sum, has another certificate.
//
// Sums of squares cannot cancel: the norms' own sums are held to bits by gate rows.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/execution/execution.h"

namespace h3 {

// The number of terms in the smallest subtree that holds i and j, i < j, of a sum of n.
using DeclaredOrder = std::function<std::int64_t(std::int64_t i, std::int64_t j, std::int64_t n)>;

struct KnownOrder {
  const char* name;  // "steps of 16, ascending"
  DeclaredOrder subtree;
};
std::span<const KnownOrder> known_orders();

struct Reduction {
  const char* node;      // "q_proj"
  const char* sum;       // "y over K"
  const char* declared;  // the name of the order that the row's header states
  std::int64_t terms;
};

struct OrderCertificate {
  Reduction reduction;
  std::vector<std::int64_t> subtree;  // of the pairs (0, j), then (j, j + 1), then (j, n - 1)
  std::string found;                  // the known order that it is, or "unknown: ..." with its first lengths
  std::string digest;                 // of `subtree`, 8 hex digits

  bool as_declared() const { return found == reduction.declared; }
};

// Of every reduction of a block and its boundaries that can cancel, in this execution; it is made for the
// configuration `order_config`.
Config order_config();
std::vector<OrderCertificate> order_certificates(const Execution& execution);

}  // namespace h3
