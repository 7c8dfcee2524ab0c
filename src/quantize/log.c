// A logarithm of our own: its bits must not depend on the mathematics library.
#include "floodmark/calibrate.h"
#include <math.h>
#include <string.h>

// log x = e log 2 + log m with m in [sqrt(1/2), sqrt 2); log m = 2 atanh s, s = (m-1)/(m+1), |s| <= 0.1716: the series in
// s^2 needs 11 terms for a relative 1e-17. log 2 is split so that e * high is exact.
double fm_log(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    int e = (int)(u >> 52) - 1023;
    u = (u & 0x000fffffffffffff) | 0x3ff0000000000000;
    double m;
    memcpy(&m, &u, 8);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 23; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * s2;
    double tail = 2 * s * sum;
    return e * 0x1.62e42fee00000p-1 + ((2 * s + tail) + e * 0x1.a39ef35793c76p-33);
}

double fm_decibel(double numerator, double denominator)
{
    if (numerator == denominator)
        return 0;
    if (denominator == 0)
        return (double)INFINITY;
    if (numerator == 0)
        return -(double)INFINITY;
    // Ratios are of sums of squares: scaled so that neither they nor their quotient leave the normal range.
    double shift = 0;
    while (numerator < 0x1p-500) {
        numerator *= 0x1p500;
        shift -= 500;
    }
    while (denominator < 0x1p-500) {
        denominator *= 0x1p500;
        shift += 500;
    }
    double logarithm = (fm_log(numerator) - fm_log(denominator)) + shift * 0x1.62e42fefa39efp-1;
    return 10 * logarithm / 0x1.26bb1bbb55516p+1; // ln 10
}
