"""LLVM: assembly to object code for this processor, and the linker of this process."""

from __future__ import annotations

from functools import cache
from typing import Any

from tapedebug.compiler.llvm import outline

VECTORISED = 6000
"""Lines of assembly up to which code is vectorised: loops over threads, which makes kernels three to eight
times as fast, and components side by side (a gather of vec3 gains 12 %). The time that LLVM takes for loops
grows with the square of the lines, and is some three seconds there."""
UNROLLED = 6000
"""Lines of assembly up to which loops in kernels are unrolled. The time that LLVM takes for that grows with
the square of their number (15 s for the adjoint of 130 loops), and long kernels run no slower without."""
COMPONENT_LOOPS = 8
"""Loops of a function from which on components side by side are not vectorised. LLVM's search from the
values that each loop carries takes up to 0.1 s a loop, and code that it made ran no faster, or 7 % slower."""
FULL = 3
"""LLVM's highest level of optimization."""
LONG_CODE = 1
"""Level at which machine code of long functions is generated, after optimization at the full level. LLVM then
does not schedule instructions a second time, after it has allocated registers, which takes a tenth to
half of the time of code generation, and duplicates fewer blocks. Such programs run as fast."""


@cache
def target_machine(level: int = FULL) -> Any:
    """The target of generated code: this processor, with all its instructions, at a level of optimization."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="static" if target.name.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )


@cache
def has_feature(name: str) -> bool:
    """True if this processor has a feature, as LLVM names it."""
    import llvmlite.binding as llvm

    return bool(llvm.get_host_cpu_features().get(name))


@cache
def llvm_version() -> int:
    """Return the major version of LLVM, whose assembly differs between versions."""
    import llvmlite.binding as llvm

    return int(llvm.llvm_version_info[0])


@cache
def vector_bits() -> int:
    """Return the width of this processor's vectors; with 256 or more, it has fused multiply-add."""
    import llvmlite.binding as llvm

    has = llvm.get_host_cpu_features()
    if all(has.get(feature) for feature in ("avx512f", "avx512bw", "avx512dq", "avx512vl")):
        return 512
    return 256 if has.get("avx2") and has.get("fma") else 128


def object_code(
    *assembly: str, searchable: bool = True, vectorise: bool = True, lanes: bool = False, level: int = FULL
) -> bytes:
    """Optimised machine code of modules, linked into one.

    Args:
        assembly: The modules.
        searchable: Whether loops can be vectorised in reasonable time, for all that their length says.
        vectorise: Whether LLVM looks for what it can vectorise: where it is so written there is nothing.
        lanes: The loops are so written: it looks only for components side by side.
        level: LLVM's level of optimization, 0 to 3.

    Raises:
        RuntimeError: LLVM refuses the assembly.
    """
    lines = sum(text.count("\n") for text in assembly)
    vectorised = vectorise and lines <= VECTORISED
    loops = vectorised and searchable and not lanes
    components = vectorised and not any(outline.has_loops(text, COMPONENT_LOOPS) for text in assembly)
    unrolled = lines <= UNROLLED
    module = _optimized(assembly, loops=loops, components=components, unrolled=unrolled, level=level)
    if lines > outline.LONG and level:
        module, level = _split(module), LONG_CODE
    return bytes(target_machine(level).emit_object(module))


def _split_before(module: Any) -> Any:
    """Return a module whose functions with many loops are split, for optimization in linear time.

    Variables become values first, because a part cannot keep them in the frame of another function.
    """
    import llvmlite.binding as llvm

    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, _pass_builder())
    return _split(module)


def _split(module: Any) -> Any:
    """Return a module whose long functions are split, to compile in linear time."""
    import llvmlite.binding as llvm

    parts = outline.split_long_functions(str(module))
    if parts is None:
        return module
    try:
        made = llvm.parse_assembly(parts)
        made.verify()
    except RuntimeError:  # another version of LLVM prints something differently: longer to compile, not wrong
        return module
    return made


def optimized(*assembly: str, keep: str) -> str:
    """Return optimized assembly of modules, linked into one that defines nothing but the function `keep`.

    Other modules may define the same function: it is linked once.

    Raises:
        RuntimeError: LLVM refuses the assembly.
    """
    module = _optimized(assembly, loops=True, components=True, keep=keep)
    module.get_function(keep).linkage = "linkonce_odr"
    return str(module)


def _linked(assembly: tuple[str, ...]) -> Any:
    """Return one module of several, for this processor."""
    import llvmlite.binding as llvm

    module, *others = [llvm.parse_assembly(text) for text in assembly]
    for other in others:
        module.link_in(other)
    module.triple = llvm.get_process_triple()
    module.data_layout = str(target_machine().target_data)
    module.verify()
    return module


def _optimized(
    assembly: tuple[str, ...],
    *,
    loops: bool,
    components: bool,
    unrolled: bool = True,
    level: int = FULL,
    keep: str = "",
) -> Any:
    """Return one optimized module, which defines nothing but the function `keep` if one is given.

    LLVM 22.1 vectorizes components of some matrix products into a module in which a value is used before it
    is computed, and code generation then ends the process. Such code is optimized again, without that pass.

    Raises:
        RuntimeError: LLVM refuses the assembly.
    """
    module = _linked(assembly)
    for thing in (*module.functions, *module.global_variables) if keep else ():
        if not thing.is_declaration and thing.name != keep:
            thing.linkage = "internal"
    if level and not unrolled and any(outline.has_loops(text, outline.LOOPS) for text in assembly):
        module = _split_before(module)
    _optimize(module, loops=loops, components=components, unrolled=unrolled, level=level)
    if components and level:
        try:
            module.verify()
        except RuntimeError:
            return _optimized(
                assembly, loops=loops, components=False, unrolled=unrolled, level=level, keep=keep
            )
    return module


def _optimize(module: Any, *, loops: bool, components: bool, unrolled: bool, level: int = FULL) -> None:
    """Run the passes of a level of LLVM; `loops` and `components` are what is vectorised."""
    builder = _pass_builder(level, loops=loops, components=components, unrolled=unrolled)
    builder.getModulePassManager().run(module, builder)


def _pass_builder(
    level: int = FULL, *, loops: bool = False, components: bool = False, unrolled: bool = False
) -> Any:
    """Return LLVM's builder of pipelines of passes, with what each may do."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization, options.slp_vectorization = loops, components
    options.loop_unrolling = unrolled
    return llvm.create_pass_builder(target_machine(level), options)
