#include "golden/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "model/error.h"

namespace h3::golden {
namespace {

// Nearest integer by the rounding of the addition itself; |x| < 2^51.
double nearest(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
  return (x + kMagic) - kMagic;
}

double power_of_two(std::int64_t exponent) {
  return std::bit_cast<double>(std::uint64_t(exponent + 1023) << 52);
}

// Taylor coefficients, the quotients correctly rounded at compile time. kInverseFactorial[n] = 1/n!.
struct InverseFactorials {
  double of[24];
  constexpr InverseFactorials() : of{} {
    double factorial = 1;  // exact up to 22!, one rounding beyond
    for (int n = 0; n < 24; ++n) {
      if (n > 1) factorial *= n;
      of[n] = 1 / factorial;
    }
  }
};
constexpr InverseFactorials kInverse;

// x - quadrant * pi/2 = high + low, |high| <= pi/4 (and a hair).
struct Reduced {
  double high, low;
  int quadrant;
};

Reduced reduce(double x) {
  require(!(std::fabs(x) > kTrigonometricLimit), "golden sin/cos of {}: expected |x| <= {}", x,
          kTrigonometricLimit);
  // pi/2 in 33 + 33 + 53 bits: the first two products with a 17-bit quadrant number are exact.
  constexpr double kFirst = 0x1.921fb544p+0, kSecond = 0x1.0b4611a6p-34, kThird = 0x1.3198a2e037073p-69;
  const double n = nearest(x * 0x1.45f306dc9c883p-1);
  const double a = x - n * kFirst;  // exact: both are multiples of 2^-53 and they nearly cancel
  const double b = n * kSecond;
  const double sum = a - b, other = sum - a;
  const double lost = (a - (sum - other)) - (b + other);  // two-sum: a - b = sum + lost
  const double tail = lost - n * kThird;
  const double high = sum + tail;
  return {high, (sum - high) + tail, int(std::int64_t(n) & 3)};
}

double sine_kernel(double x, double low) {
  const double z = x * x;
  double p = 0;
  for (int n = 21; n >= 3; n -= 2) p = p * -z + kInverse.of[n];
  return x + (low * (1 - 0.5 * z) - x * z * p);  // 1/3! - z/5! + ...: the cubic and all after it
}

double cosine_kernel(double x, double low) {
  const double z = x * x, half = 0.5 * z;
  double p = 0;
  for (int n = 22; n >= 4; n -= 2) p = p * -z + kInverse.of[n];
  const double leading = 1 - half;
  return leading + (((1 - leading) - half) + (z * z * p - x * low));
}

}  // namespace

double exp(double x) {
  if (x != x) return x;
  if (x > 709.8) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0;
  // ln 2 in 32 + 53 bits: the first product is exact.
  constexpr double kFirst = 0x1.62e42feep-1, kSecond = 0x1.a39ef35793c76p-33;
  const double n = nearest(x * 0x1.71547652b82fep+0);
  const double a = x - n * kFirst, b = n * kSecond;
  const double r = a - b, low = (a - r) - b;
  double p = 0;
  for (int k = 15; k >= 2; --k) p = p * r + kInverse.of[k];
  const double value = 1 + (r + (low + low * r + r * r * p));
  const auto exponent = std::int64_t(n),
             half = exponent / 2;  // two steps: 2^n itself may not be representable
  return value * power_of_two(half) * power_of_two(exponent - half);
}

double sin(double x) {
  if (x != x || std::fabs(x) < 0x1p-27) return x;
  const auto [high, low, quadrant] = reduce(x);
  const double value = quadrant & 1 ? cosine_kernel(high, low) : sine_kernel(high, low);
  return quadrant & 2 ? -value : value;
}

double cos(double x) {
  if (x != x) return x;
  const auto [high, low, quadrant] = reduce(x);
  const double value = quadrant & 1 ? sine_kernel(high, low) : cosine_kernel(high, low);
  return quadrant == 1 || quadrant == 2 ? -value : value;
}

double sigmoid(double x) { return 1 / (1 + exp(-x)); }

double silu(double x) { return x / (1 + exp(-x)); }

double silu_derivative(double x) {
  const double s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

}  // namespace h3::golden
