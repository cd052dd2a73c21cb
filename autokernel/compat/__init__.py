"""KernelBench's ways under KernelBench's names: its evaluator, run directories, baselines and scores. Imports no torch."""
