// What most extensions use of torch's own <torch/extension.h>, without the C++ frontend (nn, optim, data, jit), which takes two thirds of
// the compiler's time. AutoKernel puts this in its place where a text names nothing of that, and takes torch's own where it does not do.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/cuda.h>
#include <torch/types.h>

#if !defined(__CUDACC__) || defined(AUTOKERNEL_BINDS_IN_CUDA)
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#endif
