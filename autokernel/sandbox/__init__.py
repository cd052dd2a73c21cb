"""What untrusted code is shut into, layer by layer, from Linux alone. Standard library only; nothing here imports torch.

Workers (candidates) enter it in the process that they are forked in, compilers through `command`. A layer that this machine does not
allow is named with its reason in records and by `autokernel doctor`, never taken for granted.
"""
