"""Who runs what: broker (deadlines, kills), judge (trusted, owns the device), worker (untrusted), zygote (forks workers)."""
