"""Judgements by hand of failures whose error alone does not say what they are.

Each is a pattern for the names of tests (without `warp.tests.`), a class of `reasons.CLASSES` and a sentence.
The first that fits counts.
"""

from __future__ import annotations

JUDGEMENTS: tuple[tuple[str, str, str], ...] = (
    (
        r"test_atomic\..*unsupported_dtypes_.*",
        "design",
        "Warp refuses atomic operations on these types; here they work.",
    ),
    (
        r"test_assert\.TestAssertDebug\..*",
        "design",
        "A failed `assert` ends Warp's process with a signal; here it is a KernelAssertionError at its line.",
    ),
    (
        r"test_assert\..*",
        "design",
        "Warp skips `assert` in release mode; here it is checked unless config.asserts is False.",
    ),
    (
        r"test_arithmetic\.TestArithmetic\.test_binary_ops_float.*",
        "design",
        "Warp gives the second operand of `%` no gradient; here it is the derivative, -trunc(x / y).",
    ),
    (
        r"test_tape\.TestTape\.test_tape_copy_adjoint_consumption_cpu",
        "design",
        "Warp counts the adjoint of an overwritten array with retain_grad twice; here it is counted once.",
    ),
    (
        r"test_tape\.TestTape\.test_tape_nested_nonempty_scope_markers",
        "names",
        "tape.scopes is a list of Scope objects here, not of markers.",
    ),
    (r"test_tape\.TestTape\.test_tape_visualize.*", "wording", "Asserts the text of Warp's DOT graph."),
    (
        r"test_adam\.TestAdam\.test_adam_set_params.*",
        "internal",
        "Reads the optimizer's buffers, which are made at the first step here.",
    ),
    (r"test_module_hashing\..*", "internal", "Asserts when the hash of a module of Warp changes."),
    (r"test_kernel_cache\..*", "internal", "Tests the files of Warp's kernel cache."),
    (r"test_module_parallel_load\..*", "internal", "Tests how Warp's modules are compiled in parallel."),
    (r"test_module_variants\..*", "internal", "Tests the executables of Warp's modules."),
    (r"test_modules_lite\..*", "internal", "Tests how Warp's modules register what they define."),
    (r"test_module_contamination\..*", "internal", "Tests how a broken kernel affects a module of Warp."),
    (
        r"test_unique_module\..*",
        "internal",
        "Tests when Warp's modules of one kernel are made anew or shared.",
    ),
    (r"test_cpu_(block|pre|vec).*", "internal", "Tests the code that Warp generates and how it is compiled."),
    (r"test_options\..*cpu_llvm.*", "internal", "Tests options of the C++ compiler in Warp."),
    (r"test_options\..*test_options_backward.*", "wording", "Asserts the words of a warning of Warp."),
    (r"test_compile_consts\..*hash.*", "internal", "Asserts when the hash of a module of Warp changes."),
    (r"test_allocator\..*", "cuda", "Tests allocators of CUDA devices."),
    (r"test_allocation_tracker\..*", "absent", "Tests ScopedMemoryTracker."),
    (r"test_apic.*", "absent", "Tests files of captured graphs (capture_save), or meshes in graphs."),
    (r"test_examples\..*", "absent", "Runs the examples of the package, most of which draw or use meshes."),
    (r"test_render_opengl\..*", "absent", "Draws with OpenGL."),
    (r"test_fixedarray\..*", "absent", "Tests fixed-size arrays on the stack of a kernel."),
    (r"test_dense\..*", "absent", "Uses tiles and the dense solvers of Warp."),
    (r"test_bf16\..*", "language", "bfloat16 is not a type of this engine."),
    (r".*(bfloat16|bf16).*", "language", "bfloat16 is not a type of this engine."),
    (
        r"test_grad_debug\..*plot.*",
        "wording",
        "Asserts the title of Warp's plot of a Jacobian.",
    ),
    (
        r"test_grad_debug\..*gradcheck_(3d|restore).*",
        "design",
        "gradcheck leaves the program's arrays as they are, and gives no NaN for entries that are not checked.",
    ),
    (
        r"test_grad_debug\..*",
        "design",
        "Checks differentiate kernels with enable_backward=False, too, and say so; Warp refuses.",
    ),
)
