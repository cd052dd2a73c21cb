"""From a winner to a Hub kernel: what the problem's code says, what is built, what is proven. Writing is `exporters`' work."""
