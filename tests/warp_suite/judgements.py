"""Judgements by hand of failures whose error alone does not say what they are.

Each is a pattern for the names of tests (without `warp.tests.`), a class of `reasons.CLASSES` and a sentence.
The first that fits counts.
"""

from __future__ import annotations

JUDGEMENTS: tuple[tuple[str, str, str], ...] = (
    (
        r"test_template_launch_bounds\..*(accepts_oversized|accepts_compile_time_dead).*",
        "arrays",
        "An axis that is longer than int32 counts is refused, also where the kernel does not ask for its index.",
    ),
    (
        r"test_array_subclass\..*test_apic_descriptors_cpu",
        "absent",
        "Replays a launch from an APIC file.",
    ),
    (
        r"test_array_subclass\..*test_cross_family_inheritance_is_rejected",
        "wording",
        "Python refuses a class of arrays of two kinds when it is made; in Warp its use is an error.",
    ),
    (
        r"test_array_subclass\..*test_(external_interfaces_cpu|struct_descriptor_errors_cpu|subclass_annotations_.*)",
        "internal",
        "Tests how Warp finds the kind of an object that only looks like an array.",
    ),
    (
        r"test_array_subclass\..*test_null_arrays_cpu",
        "design",
        "A forgotten array is an error unless the kernel asks for it (`if a:`); in Warp it has the size 0.",
    ),
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
    (
        r"test_array\.TestArray\.test_retain_grad_(cpu|slice_view_store_cpu)",
        "design",
        "With retain_grad, Warp counts the adjoint of an overwritten value, too, or drops that of a slice.",
    ),
    (
        r"matrix\.test_mat\.TestMat\.test_mat_slicing_assign_backward_cpu",
        "design",
        "Warp adds the adjoint of a component that is overwritten later; the derivative is 0, as it is here.",
    ),
    (
        r"matrix\.test_mat\.TestMat\.test_determinant_float32_cpu",
        "design",
        "Compares with float32 differences that are 0.003 off; the gradient agrees with float64 to 3e-7.",
    ),
    (
        r"test_quat\.TestQuat\.test_quat_to_axis_angle_grad_.*",
        "design",
        "The derivative by w = 0, a kink of the angle: that of one side here, 0 as of abs(w) there.",
    ),
    (
        r"test_quat\.TestQuat\.test_scalar_division_float16_cpu",
        "design",
        "One unit in the last place of float16: the adjoint is rounded in another order.",
    ),
    (
        r"test_ref\.TestRef\.test_ref_(backward_enabled|shared_helper).*",
        "design",
        "Warp refuses gradients of functions with wp.ref parameters; here they are right.",
    ),
    (
        r"test_ref\.TestRef\.test_ref_rejects_constant_local_argument",
        "design",
        "In Warp, `x = 0` is a constant, which a function cannot change by reference; here it is a variable.",
    ),
    (
        r"test_array\.TestArray\.test_array\dd_slicing_cpu",
        "design",
        "Reads the size of an axis that an array does not have, which is 0 in Warp and an error here.",
    ),
    (
        r".*\.test_(vec|quat|transform|mat_from_(cols|rows))_slicing_assign_cpu",
        "design",
        "Compares empty slices with vectors of length 0; an empty slice is an error here.",
    ),
    (
        r"test_types\.TestTypes\.(test_vector_(u?int|float).*|test_matrix)$",
        "design",
        "Warp lets a program set any attribute of a vector or matrix; here a misspelt component is an error.",
    ),
    (
        r"test_print\.TestPrint\.test_print_(numeric_)?cpu",
        "wording",
        "Asserts how numbers are printed: `17` for a float; here `17.0`.",
    ),
    (r"test_tape\.TestTape\.test_tape_visualize.*", "wording", "Asserts the text of Warp's DOT graph."),
    (
        r"test_adam\.TestAdam\.test_adam_set_params.*",
        "internal",
        "Reads the optimizer's buffers, which are made at the first step here.",
    ),
    (
        r"test_types\.(TestTypes\.)?(test_vector_(u?int|float)\d*(_cpu)?|.*\.test_vector_(u?int|float)\d*_cpu|test_matrix)",
        "design",
        "Gives a vector or matrix an attribute of its own: refused here, as a misspelled component would be lost.",
    ),
    (
        r"test_types\..*test_numpy_dtype_(metadata|scalar_inference)",
        "design",
        "Scalars outside kernels are NumPy's: they have a dtype, and arrays of them hold numbers, not objects.",
    ),
    (
        r"test_types\..*test_constant|test_(indexed)?array\..*fill_scalar_cpu",
        "design",
        "Scalars outside kernels are NumPy's, which are the number and have no `value`.",
    ),
    (
        r"test_types\..*test_constant_error_invalid_type",
        "design",
        "Kernels capture tuples: their items are constants.",
    ),
    (
        r"test_types\..*test_composite_types_repr|test_math\..*test_(mat|vec)_type|"
        r"test_func\..*test_native_func_export|test_subscript_types\..*test_annotation_repr",
        "wording",
        "Asserts how values and types are printed.",
    ),
    (
        r"test_builtins_resolution\..*test_int_int_args_support_.*",
        "design",
        "Outside kernels a plain integer takes the type of the other operand; Warp refuses it.",
    ),
    (
        r"test_scalar_ops\..*test_py_pow_ops_u?int\d+",
        "design",
        "`**` of integers works outside kernels: scalars are NumPy's; Warp refuses it.",
    ),
    (
        r"test_print\..*test_print_error_variadic_arg_count_cpu",
        "design",
        "wp.printf takes more than 32 values; Warp refuses them.",
    ),
    (
        r"test_large\..*test_large_array_excessive_.*",
        "design",
        "Arrays may have more than 2³¹ − 1 elements along an axis; Warp refuses them.",
    ),
    (
        r"test_graph\..*_rejected_cpu",
        "design",
        "Graphs replay fills and copies of non-contiguous and indexed arrays; Warp refuses them.",
    ),
    (
        r"test_verify_fp\..*test_(nan|verify_fp_reports_composite_slot_overflow)_cpu",
        "design",
        "A number that is not finite is a NonFiniteError with its line under verify_fp; Warp prints a line.",
    ),
    (
        r"test_array\..*test_to_list_(matrix|vector)_cpu",
        "internal",
        "Asserts that vectors and matrices are ctypes arrays.",
    ),
    (r"test_array\..*test_array_new_del", "internal", "Calls `__del__` of arrays."),
    (
        r"test_array\..*test_empty_array_cpu",
        "arrays",
        "The address of an array without elements is 0 here, None in Warp.",
    ),
    (
        r"test_composite_component_adjoint\..*test_array_composite_slot_multiply_assign_backward_rejected_cpu",
        "design",
        "`a[i].x *= y` has its gradient; Warp refuses it where gradients are on.",
    ),
    (
        r"test_composite_component_adjoint\..*test_slot_write_rejects_non_integer_array_index_cpu",
        "wording",
        "Refused at the launch; the test wants the error when the module is loaded, which the runner leaves out.",
    ),
    (
        r"test_conditional\..*test_conditional_unequal_types_cpu",
        "design",
        "Numbers of different types are compared as in C; Warp refuses it.",
    ),
    (
        r"test_codegen\..*test_error_mutating_constant_in_dynamic_loop_cpu",
        "design",
        "A variable that begins as a literal may change in a loop; Warp wants float(…) around the literal.",
    ),
    (
        r"test_codegen\..*test_rebind_(function|gradwrapper)_local_.*_cpu",
        "design",
        "A name may mean another function or a number afterwards; only where branches differ it is refused.",
    ),
    (
        r"test_codegen\..*test_(array_slot_augassign_uses_user_operator|overloaded_slot_update_backward_rejected)_cpu",
        "language",
        "Functions named add, sub, … replace the operators of structs only; in Warp those of numbers, too.",
    ),
    (
        r"test_codegen\..*test_recompiled_equal_code_object_reextracts",
        "internal",
        "Asserts the names of Warp's modules of one kernel.",
    ),
    (
        r"test_struct\..*test_struct_inheritance_error_cpu",
        "design",
        "A struct may extend another: fields of the base come first; Warp refuses it.",
    ),
    (
        r"test_struct\..*test_struct_field_type_preservation",
        "design",
        "Scalar fields of structs are Python numbers outside kernels.",
    ),
    (
        r"test_struct\..*test_struct_array_gc_replacement_clears_grad_keepalive_cpu",
        "internal",
        "Reads the attribute in which Warp keeps the gradient of a field alive.",
    ),
    (
        r"test_struct\..*hash.*|test_static\..*hash.*|test_func_parameter_targets\..*hash.*",
        "internal",
        "Asserts when the hash of a module of Warp changes.",
    ),
    (
        r"test_static\..*(single_evaluation|evaluated_once)",
        "design",
        "static(…) is computed when the kernel is compiled, with the names of its decoration; in Warp when it is "
        "decorated.",
    ),
    (
        r"test_static\..*test_static_value_isolation_across_shared_tree_cpu",
        "internal",
        "Asserts that Warp gives the same kernel for the same definition; the numbers agree.",
    ),
    (
        r"test_static\..*test_static_expression_return_types_cpu",
        "design",
        "static(…) as a statement of its own may give anything; Warp refuses arrays.",
    ),
    (
        r"test_func\..*test_cpython_call_user_function_with_wrong_argument_types|"
        r"test_func_parameter_targets\..*test_function_parameter_python_scope",
        "design",
        "Outside kernels a function runs as Python with any arguments; Warp refuses other types.",
    ),
    (
        r"test_func_parameter_targets\..*test_function_parameter_python_scope_argument_count_mismatch",
        "internal",
        "Replaces the method in which Warp looks up versions of functions.",
    ),
    (
        r"test_func_parameter_targets\..*test_function_custom_grad_rejected",
        "design",
        "Functions that take functions may have gradients and replays; Warp refuses them.",
    ),
    (
        r"test_vec_constructors\..*test_anon_constructor_error_numeric_args_mismatch_cpu",
        "design",
        "A whole literal beside floats is a float in wp.vector(1.0, 2); Warp refuses it.",
    ),
    (
        r"test_spatial\..*test_transform_constructor_copy_dtype_mismatch",
        "design",
        "A transform may be made of one of another precision; Warp refuses it.",
    ),
    (
        r"test_(subscript_types|factory_style_array_annotations)\..*test_(any_dtype|factory_style_any_metadata|"
        r"codegen_compatibility|annotation_vars_caching|annotation_is_lightweight)",
        "internal",
        "Reads attributes of the objects that annotate arrays in Warp.",
    ),
    (
        r"test_utils\..*test_(array_cast_error_unsupported_partial_cast|array_inner_error_unsupported_dtype|"
        r"(radix|segmented)_sort_pairs_error_(non_contiguous|unsupported_dtype))_cpu",
        "design",
        "Warp refuses these types and layouts of arrays; here they work.",
    ),
    (
        r"test_utils\..*test_array_inner_error_shapes_mismatch_cpu",
        "wording",
        "Asserts the words of the error.",
    ),
    (
        r"test_utils\..*test_create_warp_function.*",
        "internal",
        "Calls the helper with which wp.map makes functions of lambdas.",
    ),
    (
        r"test_codegen\..*external_constant_params.*",
        "cuda",
        "Tests kernels that another program launches on a CUDA device; the decorator refuses them here.",
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
    (r"test_fabricarray\..*", "absent", "Uses arrays of Omniverse's Fabric."),
    (r"test_fixedarray\..*", "absent", "Tests fixed-size arrays on the stack of a kernel."),
    (r"test_dense\..*", "absent", "Uses tiles and the dense solvers of Warp."),
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
