"""Decoding steps without the overhead of modules: in C++, or in PyTorch."""
