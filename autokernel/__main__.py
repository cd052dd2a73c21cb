"""`python -m autokernel` is the command `autokernel`."""

from __future__ import annotations

from autokernel.cli import main

if __name__ == "__main__":
    main()
