"""C++ texts of the functions that generated CPU kernels call: branch-free, so that `omp simd` loops keep their vectors.

Each is within 2 ulp of the exact value over float's range, denormals included, without fast-math. Coefficients were fitted for this
project (minimax by Lawson's weights over the reduced range); exp and log use the usual reduction by powers of two.
"""

from __future__ import annotations

from collections.abc import Iterable

FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "pow2": ((), """\
// 2^n for n in [-126, 127].
static inline float pow2(int32_t n) {
    const int32_t bits = (n + 127) << 23;
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}
"""),
    "nearest": ((), """\
// x rounded to a whole number, |x| < 2^22: adding 1.5 * 2^23 pushes the fraction out.
static inline float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }
"""),
    "exp_": (("pow2", "nearest"), """\
// exp: x = n ln 2 + r; the scale goes in two steps so that results fade into denormals.
static inline float exp_(float x) {
    x = x < -105.0f ? -105.0f : x;
    x = x > 89.0f ? 89.0f : x;
    const float n = nearest(x * 1.44269504f);
    const float r = __builtin_fmaf(n, 2.12194440e-4f, __builtin_fmaf(n, -0.693359375f, x));
    float q = 0.0013814190169796348f;
    q = __builtin_fmaf(q, r, 0.008368914015591145f);
    q = __builtin_fmaf(q, r, 0.04166840761899948f);
    q = __builtin_fmaf(q, r, 0.1666651964187622f);
    q = __builtin_fmaf(q, r, 0.4999999403953552f);
    const float p = 1.0f + __builtin_fmaf(r * r, q, r);
    const int32_t whole = (int32_t)n;
    const int32_t half = whole >> 1;
    return p * pow2(half) * pow2(whole - half);
}
"""),
    "expm1_": (("pow2", "nearest"), """\
// exp(x) - 1 without cancellation near 0.
static inline float expm1_(float x) {
    x = x < -30.0f ? -30.0f : x;
    x = x > 89.0f ? 89.0f : x;
    const float n = nearest(x * 1.44269504f);
    const float r = __builtin_fmaf(n, 2.12194440e-4f, __builtin_fmaf(n, -0.693359375f, x));
    float q = 0.00019914547738153487f;
    q = __builtin_fmaf(q, r, 0.0013941259821876884f);
    q = __builtin_fmaf(q, r, 0.00833327230066061f);
    q = __builtin_fmaf(q, r, 0.04166635125875473f);
    q = __builtin_fmaf(q, r, 0.1666666716337204f);
    q = __builtin_fmaf(q, r, 0.5f);
    const float p = __builtin_fmaf(r * r, q, r);
    const float half = pow2((int32_t)n - 1);
    return 2.0f * (half * p + (half - 0.5f));
}
"""),
    "log_": ((), """\
// log: x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln 2 in two parts.
static inline float log_(float x) {
    const bool tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 8388608.0f : x;
    int32_t bits;
    __builtin_memcpy(&bits, &scaled, 4);
    const int32_t shifted = bits - 0x3f3504f3;
    const int32_t whole = shifted >> 23;
    const int32_t mantissa = (shifted & 0x007fffff) + 0x3f3504f3;
    float m;
    __builtin_memcpy(&m, &mantissa, 4);
    const float e = (float)(whole - (tiny ? 23 : 0));
    const float f = m - 1.0f;
    float p = 0.06927237659692764f;
    p = __builtin_fmaf(p, f, -0.11807098984718323f);
    p = __builtin_fmaf(p, f, 0.11876822263002396f);
    p = __builtin_fmaf(p, f, -0.12381882220506668f);
    p = __builtin_fmaf(p, f, 0.14217893779277802f);
    p = __builtin_fmaf(p, f, -0.1666935682296753f);
    p = __builtin_fmaf(p, f, 0.2000226229429245f);
    p = __builtin_fmaf(p, f, -0.24999985098838806f);
    p = __builtin_fmaf(p, f, 0.3333331048488617f);
    const float s = f * f;
    const float low = __builtin_fmaf(f * s, p, __builtin_fmaf(-0.5f, s, e * -2.12194440e-4f));
    float y = __builtin_fmaf(e, 0.693359375f, f + low);
    y = x == 0.0f ? -__builtin_inff() : y;
    y = x == __builtin_inff() ? x : y;
    return x >= 0.0f ? y : __builtin_nanf("");
}
"""),
    "log1p_": (("log_",), """\
// log(1 + x): the part of x that 1 + x rounds away comes back as a correction.
static inline float log1p_(float x) {
    const float u = 1.0f + x;
    const float lost = x - (u - 1.0f);
    const float y = log_(u);
    return (u > 0.0f && u < __builtin_inff()) ? y + lost / u : y;
}
"""),
    "sigmoid_": (("exp_",), """\
// sigmoid by exp(-|x|), which never overflows.
static inline float sigmoid_(float x) {
    const float t = exp_(-__builtin_fabsf(x));
    return (x >= 0.0f ? 1.0f : t) / (1.0f + t);
}
"""),
    "tanh_": (("expm1_",), """\
// tanh by expm1(2|x|), so that small x keep their digits.
static inline float tanh_(float x) {
    const float a = __builtin_fabsf(x);
    const float t = expm1_(2.0f * (a > 10.0f ? 10.0f : a));
    return __builtin_copysignf(t / (t + 2.0f), x);
}
"""),
    "erf_": (("exp_",), """\
// erf: odd polynomial up to 1, then 1 - exp(-g(|x|)); above 4.1 it rounds to 1.
static inline float erf_(float x) {
    const float z = x * x;
    float s = 7.889122935011983e-05f;
    s = __builtin_fmaf(s, z, -0.0008020842215046287f);
    s = __builtin_fmaf(s, z, 0.005189535673707724f);
    s = __builtin_fmaf(s, z, -0.026854444295167923f);
    s = __builtin_fmaf(s, z, 0.11283600330352783f);
    s = __builtin_fmaf(s, z, -0.3761262595653534f);
    s = __builtin_fmaf(s, z, 1.1283791065216064f);
    const float a0 = __builtin_fabsf(x);
    const float a = a0 > 4.1f ? 4.1f : a0;
    float g = -1.7247714367840672e-07f;
    g = __builtin_fmaf(g, a, 2.4171322365873493e-05f);
    g = __builtin_fmaf(g, a, -0.0004566768475342542f);
    g = __builtin_fmaf(g, a, 0.004257606342434883f);
    g = __builtin_fmaf(g, a, -0.025320641696453094f);
    g = __builtin_fmaf(g, a, 0.10856803506612778f);
    g = __builtin_fmaf(g, a, 0.6330980062484741f);
    g = __builtin_fmaf(g, a, 1.129634141921997f);
    g = __builtin_fmaf(g, a, -0.0001990067248698324f);
    return a0 < 1.0f ? x * s : __builtin_copysignf(1.0f - exp_(-g), x);
}
"""),
}


def texts(names: Iterable[str]) -> str:
    """The C++ of these functions and of all they call, each once, callees first."""
    done: list[str] = []

    def add(name: str) -> None:
        if name in done or name not in FUNCTIONS:
            return
        for callee in FUNCTIONS[name][0]:
            add(callee)
        done.append(name)

    for name in names:
        add(name)
    return "\n".join(FUNCTIONS[name][1] for name in done)
