"""The environment that workers and compilers get: a list of what they need, and nothing else of the user's."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAMES = frozenset({
    "PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHASHSEED", "CC", "CXX", "CUDAHOSTCXX", "MAX_JOBS",
})
PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "TRITON_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_")
# memory of torch's expandable segments cannot be shared between processes, and outputs are read from where they lie
UNSUITED = frozenset({"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|PROXY|_URL$", re.IGNORECASE)


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that candidates may see. HOME and TMPDIR are for the caller to set: to a private folder.

    A name that sounds like a secret (NVIDIA_API_KEY, TORCH_HUB_TOKEN) is left out whatever it begins with.
    """
    return {name: value for name, value in environ.items()
            if (name in NAMES or name.startswith(PREFIXES)) and name not in UNSUITED and not _SECRET.search(name)}
