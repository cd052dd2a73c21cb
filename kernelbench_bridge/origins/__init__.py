"""Where problems come from, one origin a file. Each answers two questions: which levels are there, and what does one hold."""
