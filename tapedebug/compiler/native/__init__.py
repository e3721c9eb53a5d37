"""Native functions: snippets of C, compiled with the system's compiler into shared objects that kernels call.

A snippet is the body of a C function; arrays are pointers, numbers are values, vectors are small unions.
Kernels call `symbol(frame)`, where the frame holds the arguments and takes the results, eight bytes each.
"""
