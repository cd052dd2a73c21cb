"""Data: small problems in KernelBench's format, written for this project. The files under level1 to level4 are read as text."""
