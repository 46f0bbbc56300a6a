// FP64 elementary functions made of + - * / and bit moves only: the same bits on every machine, whatever its
// libm. Each errs by less than 2.2e-16 relative (conformance/host/golden.cpp measures it against a wider
// libm).
#pragma once

namespace h3::golden {

double exp(double x);  // every double; gradual underflow, overflow to infinity

// |x| <= kTrigonometricLimit, else an error: beyond it the three-part reduction by pi/2 would lose digits.
inline constexpr double kTrigonometricLimit = 1e5;
double sin(double x);
double cos(double x);

double sigmoid(double x);          // 1 / (1 + e^-x)
double silu(double x);             // x sigmoid(x)
double silu_derivative(double x);  // s (1 + x (1 - s)), s = sigmoid(x)

}  // namespace h3::golden
