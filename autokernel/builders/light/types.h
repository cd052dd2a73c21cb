// For texts whose CUDA sources name nothing of torch: what load_inline puts above them is left out there.
#pragma once

#ifndef __CUDACC__
#include_next <torch/types.h>
#endif
