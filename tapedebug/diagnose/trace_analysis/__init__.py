"""What a trace and the source of its kernels say by themselves: data flow, loops, repeats, overwrites."""
