"""Writes the C++ file that is compiled: the candidate's text between a prologue and checks made from its SIGNATURES."""

from __future__ import annotations

from autokernel.builders.literals import NativeLiterals
from autokernel.builders.signatures import Signature

_INCLUDES = {"cuda": "#include <cstdint>\n#include <cuda_runtime.h>\n", "cpp": "#include <cstdint>\n"}

# Compile-time checks that SIGNATURES and the C++ agree: ctypes would otherwise pass garbage for a wrong width, silently. A pointer to an
# arithmetic type must match in kind and size; one to anything else (void, float4, __half) is the author's business.
_CHECKS = """
#include <type_traits>
namespace autokernel_check {
struct missing {};
template <int I, class... T> struct nth { using type = missing; };
template <int I, class H, class... T> struct nth<I, H, T...> { using type = typename nth<I - 1, T...>::type; };
template <class H, class... T> struct nth<0, H, T...> { using type = H; };
template <class F> struct launcher;
template <class R, class... A> struct launcher<R(A...)> {
  static constexpr bool returns_int = std::is_same<R, int>::value;
  static constexpr int count = sizeof...(A);
  template <int I> using arg = typename nth<I, A...>::type;
};
template <class R, class... A> struct launcher<R(A...) noexcept> : launcher<R(A...)> {};
template <class T, class W> constexpr bool alike = std::is_floating_point<T>::value == std::is_floating_point<W>::value &&
    std::is_arithmetic<T>::value && sizeof(T) == sizeof(W);
template <class T> constexpr bool sized = std::is_arithmetic<T>::value;
template <class T, class W, bool = sized<T>> struct pointee { static constexpr bool ok = true; };
template <class T, class W> struct pointee<T, W, true> { static constexpr bool ok = alike<T, W>; };
template <class T> struct pointee<T, void, true> { static constexpr bool ok = true; };
template <class T> constexpr bool absent = std::is_same<T, missing>::value;  // the count has been refused already
template <class T, class W> constexpr bool scalar = absent<T> || alike<std::remove_cv_t<T>, W>;
template <class T, class W> constexpr bool pointer =
    absent<T> || (std::is_pointer<T>::value && pointee<std::remove_cv_t<std::remove_pointer_t<T>>, W>::ok);
}
"""

_ERROR_NAME = """
extern "C" const char* autokernel_error_name(int code) { return cudaGetErrorName(static_cast<cudaError_t>(code)); }
"""

_C_TYPES = {
    "f32": "float", "f64": "double", "i64": "std::int64_t", "i32": "std::int32_t", "i8": "std::int8_t", "u8": "std::uint8_t",
    "f16": "std::uint16_t", "bf16": "std::uint16_t", "bool": "bool", "void": "void",
}  # fmt: skip


def translation_unit(literals: NativeLiterals, kind: str) -> str:
    """The whole file for nvcc ("cuda") or g++ ("cpp").

    `#line` makes compilers count in the candidate's own file; where its literal is not in step with its lines (escapes, joined strings)
    they count from 1 in "CUDA_SRC" or "CPP_SRC". The literal is followed by an empty line, so that a trailing `//` swallows nothing.
    """
    name = "CUDA_SRC" if kind == "cuda" else "CPP_SRC"
    start = f'#line {literals.first_line} "candidate.py"' if literals.first_line else f'#line 1 "{name}"'
    parts = [_INCLUDES[kind], start, "\n", literals.code, '\n\n#line 1 "autokernel"', _CHECKS]
    parts += [_checks(signature, kind) for signature in literals.signatures]
    if kind == "cuda":
        parts.append(_ERROR_NAME)
    return "".join(parts)


def plain_unit(literals: NativeLiterals, kind: str) -> str:
    """The candidate's own text with its includes, for people: without the lines that count in its file and the checks."""
    return f"{_INCLUDES[kind]}\n{literals.code.strip()}\n"


def _checks(signature: Signature, kind: str) -> str:
    """Checks of one launcher, reported at its line in SIGNATURES."""
    name, line = signature.name, f'#line {signature.line} "candidate.py"\n'
    entry = f"SIGNATURES['{name}']"
    expected = [(f"'{argument.type} {argument.name}'", argument.type) for argument in signature.arguments]
    if kind == "cuda":
        expected.append(("the trailing 'void* stream'", "void*"))
    launcher = f"autokernel_check::launcher<decltype({name})>"
    lines = [
        f'extern "C" decltype({name}) {name};',  # an error here: not declared, or not extern "C"
        f'static_assert({launcher}::returns_int, "{entry}: the C++ function must return int, 0 for success");',
        f'static_assert({launcher}::count == {len(expected)}, "{entry}: the C++ function must take {len(expected)} arguments'
        f'{", the last one void* stream" if kind == "cuda" else ""}");',
    ]
    for position, (shown, type_name) in enumerate(expected):
        test = "pointer" if type_name.endswith("*") else "scalar"
        lines.append(f"static_assert(autokernel_check::{test}<{launcher}::arg<{position}>, {_C_TYPES[type_name.rstrip('*')]}>, "
                     f'"{entry}: argument {position + 1} in C++ is not what {shown} says");')  # fmt: skip
    return "".join(line + text + "\n" for text in lines)
