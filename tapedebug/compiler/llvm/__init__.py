"""From generated text to machine code without a compiler's front end between: translation, library, LLVM."""
