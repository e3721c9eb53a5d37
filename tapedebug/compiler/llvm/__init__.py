"""Generated text to machine code: translation to LLVM assembly, its library, LLVM itself."""

from __future__ import annotations

from tapedebug.compiler.llvm import library as library
from tapedebug.compiler.llvm import native as native
from tapedebug.compiler.llvm import print_buffer as print_buffer
from tapedebug.compiler.llvm import stacks as stacks
