"""The compiler: Python functions to typed IR, adjoints, generated Python, machine code."""
