//! The parser, the linker and the audit, on PTX written by hand.

use std::fs;
use std::path::Path;

use warpkov_build::audit::Expected;
use warpkov_build::{Baseline, assemble, audit, compiler, ptx};

/// A module of the kernel `k` with this body, after these declarations.
fn module(declarations: &str, body: &str) -> String {
    format!(
        ".version 7.4\n.target sm_80\n.address_size 64\n{declarations}\n.visible .entry k(\n\
         \t.param .u64 .ptr .align 4 k_param_0,\n\t.param .b32 k_param_1\n)\n{{\n{body}\n}}\n"
    )
}

fn faults(text: &str, expected: &[&str]) -> Vec<String> {
    let expected = Expected::of(expected.iter().copied());
    audit::faults(text, &ptx::parse(text).expect("the module is read"), &Baseline::ampere(), &expected)
}

fn body_faults(body: &str) -> Vec<String> {
    faults(&module("", body), &["k"])
}

#[track_caller]
fn assert_one(faults: &[String], part: &str) {
    assert!(faults.len() == 1 && faults[0].contains(part), "expected one fault with {part:?}, found {faults:?}");
}

#[test]
fn reads_entries_with_their_parameters() {
    let text = ".visible .entry b(\n\t.param .b8 b_param_0[12],\n\t.param .f64 b_param_1\n)\n{\n\t// begin inline asm\n\
                \t{ .reg .b32 t; }\n\tret;\n}\n.visible .entry a()\n{\n\tret;\n}\n";
    let module = ptx::parse(text).expect("the module is read");
    let entries: Vec<_> = module.entries.iter().map(|entry| (entry.name, entry.params.as_slice())).collect();
    assert_eq!(entries, [("a", &[][..]), ("b", &[12, 8][..])]);
    assert_eq!(ptx::parse(&self::module("", "ret;")).expect("the module is read").entries[0].params, [8, 4]);
}

#[test]
fn splits_a_module_into_kernels_with_all_that_each_needs() {
    let header = ".version 7.4\n.target sm_80\n.address_size 64\n";
    let tile = ".shared .align 16 .b8 tile[256];\n";
    let other = ".shared .align 16 .b8 tile_2[256];\n";
    let dynamic = ".extern .shared .align 16 .b8 dynamic[];\n";
    let table = ".global .align 4 .b8 table[8] = {1, 2, 3, 4,\n\t5, 6, 7, 8};\n";
    let declared = ".func  (.param .b32 result) helper\n(\n\t.param .b32 helper_param_0\n)\n;\n";
    let helper = "// A comment {\n.func  (.param .b32 result) helper(\n\t.param .b32 helper_param_0\n)\n{\n\tld.global.b32 %r1, \
                  [table+4];\n\tret;\n}\n";
    let caller = ".func caller()\n{\n\tcall.uni (r), helper, (p);\n\tret;\n}\n";
    let b = ".visible .entry b(\n\t.param .u64 b_param_0\n)\n.maxntid 128\n{\n\tcall.uni caller, ();\n\tret;\n}\n";
    let a =
        ".visible .entry a()\n{\n\tmov.b64 %rd1, tile;\n\t{ .reg .b64 t; cvta.shared.u64 t, dynamic; }\n\tret;\n}\n";
    let text = [header, tile, other, dynamic, declared, table, b, a, helper, caller].concat();
    let module = ptx::parse(&text).expect("the module is read");
    let alone: Vec<_> = module.entries.iter().map(|entry| module.alone(entry)).collect();
    let helper = helper.trim_start_matches("// A comment {\n");
    let [with_a, with_b] = [[header, tile, dynamic, a].concat(), [header, declared, table, b, helper, caller].concat()];
    assert_eq!(alone, [with_a, with_b]);
    // Splitting the parts again changes nothing.
    for text in &alone {
        let module = ptx::parse(text).expect("the module is read");
        assert_eq!((module.version, module.target, module.entries.len()), ("7.4", "sm_80", 1));
        assert_eq!(&module.alone(&module.entries[0]), text);
    }
}

#[test]
fn links_the_definitions_that_kernels_use() {
    let header = ".version 7.4\n.target sm_80\n.address_size 64\n";
    let array = ".shared .align 16 .b8 partial_12[256];\n";
    let dynamic = ".extern .shared .align 16 .b8 dynamic_shared[];\n";
    let table = ".global .align 4 .b8 table[4] = {1, 2, 3, 4};\n";
    let helper = ".visible .func  (.param .b32 result) helper()\n{\n\tld.global.b32 %r1, [table];\n\tret;\n}\n";
    let library = [header, array, dynamic, ".shared .align 16 .b8 unused[8];\n", table, helper].concat();
    let declared = ".extern .func  (.param .b32 result) helper\n()\n;\n.extern .func  elsewhere\n()\n;\n";
    let own = ".shared .align 16 .b8 own[8];\n";
    let entry = ".visible .entry k()\n{\n\tmov.u32 %r1, partial_12;\n\tmov.u32 %r2, dynamic_shared;\n\tmov.u32 %r3, own;\n\t\
                 call.uni (r), helper, ();\n\tcall.uni elsewhere, ();\n\tret;\n}\n";
    let text = [header, declared, own, entry].concat();
    let linked = ptx::link(&text, &library).expect("both are read");
    let kept = ".extern .func  elsewhere\n()\n;\n";
    assert_eq!(linked, [header, array, dynamic, table, helper, kept, own, entry].concat());
    // Linking again changes nothing, and the audit reports the function that the library lacks.
    assert_eq!(ptx::link(&linked, &library).expect("both are read"), linked);
    assert_one(&faults(&linked, &["k"]), "elsewhere");
}

#[test]
fn refuses_items_without_end_or_name() {
    let cut = module("", "ret;").trim_end().trim_end_matches('}').to_owned();
    assert!(ptx::parse(&cut).err().is_some_and(|why| why.contains("line 5")));
    assert!(ptx::parse(&module(".shared .align 4 .b8 [4];", "ret;")).is_err());
}

#[test]
fn refuses_variables_that_kernels_share() {
    let two = |variable: &str| {
        let text = module(variable, "\tst.global.b32 [counter], 1;\n\tret;");
        let second = text.split_once(".visible").map(|(_, entry)| entry.replace(" k(", " l(")).unwrap_or_default();
        faults(&format!("{text}.visible{second}"), &["k", "l"])
    };
    assert_one(&two(".global .align 4 .u32 counter;"), "the kernels k and l share the variable counter");
    assert_eq!(two(".global .align 4 .u32 counter = 5;"), [""; 0]);
    assert_eq!(two(".shared .align 4 .b8 counter[4];"), [""; 0]);
    assert_eq!(
        faults(&module(".global .align 4 .u32 counter;", "\tred.global.add.u32 [counter], 1;"), &["k"]),
        [""; 0]
    );
}

#[test]
fn launch_bounds_become_directives() {
    let mark = "\t// begin inline asm\n\t// launch bounds: .maxntid 256 .minnctapersm 2\n\t// end inline asm\n\tret;";
    let text = [module("", mark), ".visible .entry l()\n{\n\tret;\n}\n".to_owned()].concat();
    let bounded = ptx::launch_bounds(&text);
    assert!(bounded.contains("k_param_1\n)\n.maxntid 256\n.minnctapersm 2\n{\n"), "{bounded}");
    assert!(
        bounded.ends_with(".visible .entry l()\n{\n\tret;\n}\n") && !bounded.contains("launch bounds"),
        "{bounded}"
    );
    // The audit reads such a kernel as others, and its own module keeps the directives.
    assert_eq!(faults(&bounded, &["k", "l"]), [""; 0]);
    let parsed = ptx::parse(&bounded).expect("the module is read");
    assert_eq!(parsed.entries[0].params, [8, 4]);
    assert!(
        parsed.alone(&parsed.entries[0]).contains(".minnctapersm 2")
            && !parsed.alone(&parsed.entries[1]).contains(".maxntid")
    );
    let plain = module("", "ret;");
    assert_eq!(ptx::launch_bounds(&plain), plain);
}

#[test]
fn reads_assembler_versions() {
    let about = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCopyright (c) 2005-2025 NVIDIA Corporation\n\
                 Cuda compilation tools, release 12.9, V12.9.86\nBuild cuda_12.9.r12.9/compiler.36037853_0\n";
    assert_eq!(assemble::parse_version(about), Some(("12.9.86".to_owned(), (12, 9))));
    assert_eq!(assemble::parse_version("GNU assembler (GNU Binutils) 2.40"), None);
}

#[test]
fn accepts_a_clean_module() {
    assert_eq!(body_faults("\tmov.u32 %r1, %tid.x;\n\tbar.sync 0;\n\tret;"), [""; 0]);
}

#[test]
fn refuses_another_version_or_target() {
    let text = module("", "ret;").replace("7.4", "7.8").replace("sm_80", "sm_52");
    let faults = faults(&text, &["k"]);
    assert!(faults.len() == 2 && faults[0].contains("7.8") && faults[1].contains("sm_52"), "{faults:?}");
}

#[test]
fn refuses_missing_and_unknown_entries() {
    assert_one(&faults(&module("", "ret;"), &["k", "other"]), "other");
    assert_one(&faults(&module("", "ret;"), &[]), "entry k");
}

#[test]
fn refuses_undefined_functions_and_panics() {
    assert_one(&faults(&module(".extern .func memcpy;", "ret;"), &["k"]), "memcpy");
    let call = "\tcall.uni \n\t_ZN4core9panicking5panic17h0E, \n\t(\n\tparam0\n\t);\n\tret;";
    assert_one(&body_faults(call), "may panic");
}

#[test]
fn refuses_two_shared_arrays_of_one_name() {
    let twice = ".shared .align 16 .b8 tile[64];\n.shared .align 16 .b8 sums[64];\n.shared .align 16 .b8 tile[64];";
    assert_one(&faults(&module(twice, "ret;"), &["k"]), "tile");
}

fn entries_of(source: &str) -> Result<Expected, String> {
    audit::entries_of(source, Path::new(""))
}

#[test]
fn modules_in_other_files_count() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::write(folder.join("other.rs"), "#[kernel] fn g() {}").expect("a new file");
    let source = "#[path = \"other.rs\"] mod other; mod inner { #[kernel] fn f() {} } mod beside;";
    assert_eq!(audit::entries_of(source, folder).expect("the sources are read"), Expected::of(["f", "g"]));
    assert!(audit::entries_of("#[path = \"none.rs\"] mod other;", folder).is_err());
}

#[test]
fn expects_every_instance() {
    let source = "mod inner { #[kernel(T = [f32, f64], LANES = [1, 2])] pub fn rows<T, const LANES: u32>() {} }\n\
                  #[kernel] fn plain() {}\n fn helper() {}";
    let expected = ["rows_f32_1", "rows_f32_2", "rows_f64_1", "rows_f64_2", "plain"];
    let path = entries_of("#[warpkov_device::device::kernel] fn f() {}");
    assert_eq!(path.expect("the source is read"), Expected::of(["f"]));
    assert_eq!(entries_of(source).expect("the source is read"), Expected::of(expected));
    let contract = "#[kernel(T = [f32, f64], requires(x.len() >= n, shape.block % 32 == 0), block = 64)] fn g() {}";
    assert_eq!(entries_of(contract).expect("the source is read"), Expected::of(["g_f32", "g_f64"]));
    assert!(entries_of("#[kernel(N = [1 + 1])] fn f() {}").is_err());
}

/// A macro that is called with a type may declare kernels named after it, and only such.
#[test]
fn accepts_kernels_of_a_macro() {
    let source = "warpkov_kernels::model!(DeMoor);\nmacro_rules! local { () => {} }\nlocal!();\nother!(lower);";
    let expected = entries_of(source).expect("the source is read");
    assert_eq!(expected.prefixes.iter().map(String::as_str).collect::<Vec<_>>(), ["de_moor_"]);
    let faults_of = |name: &str| {
        let text = module("", "ret;").replace(" k(", &format!(" {name}(")).replace("k_param", &format!("{name}_param"));
        audit::faults(&text, &ptx::parse(&text).expect("the module is read"), &Baseline::ampere(), &expected)
    };
    assert_eq!(faults_of("de_moor_sweep"), [""; 0]);
    assert_one(&faults_of("forest_sweep"), "forest_sweep");
}

/// The instructions `before`, then a branch on `predicate` with a barrier on each side.
fn two_barriers(before: &str, predicate: &str) -> String {
    format!(
        "{before}\n\t@{predicate} bra $L1;\n\tbar.sync 0;\n\tst.global.b32 [%rd1], %r2;\n\tbra.uni $L2;\n$L1:\n\
         \tbar.sync 0;\n$L2:\n\tret;"
    )
}

const BY_THREAD: &str = "\tmov.u32 %r1, %tid.x;\n\tadd.s32 %r2, %r1, 1;\n\tsetp.eq.b32 %p1, %r2, 0;";

#[test]
fn refuses_a_barrier_on_each_side_of_a_divergent_branch() {
    assert_one(&body_faults(&two_barriers(BY_THREAD, "%p1")), "different barriers");
    assert_one(&body_faults(&two_barriers(BY_THREAD, "!%p1")), "different barriers");
    assert_one(&body_faults(&two_barriers("\tld.shared.b32 %r2, [%r1];\n\tsetp.eq.b32 %p1, %r2, 0;", "%p1")), "wait");
    let matrices = two_barriers(BY_THREAD, "%p1").replace("bar.sync 0", "mma.sync.aligned.m16n8k8 {%f1}, {%f2}");
    assert_one(&body_faults(&matrices), "different barriers");
}

/// The emulator takes the two barriers of one macro call for the same one: Rust gives both the line of the call.
#[test]
fn refuses_a_barrier_on_each_side_of_a_branch_within_a_macro() {
    // The device code of
    // macro_rules! both { ($t:expr) => { if $t < 32 { thread::sync_threads() } else { thread::sync_threads() } } }
    // both!(t);
    // out.set(t as usize, 1);
    let compiled = "\tld.param.b64 \t%rd2, [k_param_0];\n\tcvta.to.global.u64 \t%rd1, %rd2;\n\tmov.u32 \t%r1, %tid.x;\n\
                    \tsetp.lt.u32 \t%p1, %r1, 32;\n\t@%p1 bra \t$L__BB2_2;\n\tbra.uni \t$L__BB2_1;\n$L__BB2_2:\n\
                    \tbar.sync \t0;\n\tbra.uni \t$L__BB2_3;\n$L__BB2_1:\n\tbar.sync \t0;\n$L__BB2_3:\n\
                    \tmul.wide.u32 \t%rd3, %r1, 4;\n\tadd.s64 \t%rd4, %rd1, %rd3;\n\tst.global.b32 \t[%rd4], 1;\n\
                    \tret;";
    assert_one(&body_faults(compiled), "different barriers");
}

#[test]
fn accepts_a_barrier_on_each_side_of_a_uniform_branch() {
    let block = "\tmov.u32 %r1, %ctaid.x;\n\tld.param.b32 %r2, [k_param_1];\n\tsetp.lt.u32 %p1, %r1, %r2;";
    assert_eq!(body_faults(&two_barriers(block, "%p1")), [""; 0]);
    // A block-wide count has the same value in all threads.
    let vote = format!("{BY_THREAD}\n\tbar.red.popc.u32 %r3, 0, %p1;\n\tsetp.eq.b32 %p2, %r3, 0;");
    assert_eq!(body_faults(&two_barriers(&vote, "%p2")), [""; 0]);
}

#[test]
fn refuses_a_branch_that_depends_on_an_earlier_divergent_branch() {
    let flag =
        format!("{BY_THREAD}\n\tmov.b32 %r3, 0;\n\t@%p1 bra $L0;\n\tmov.b32 %r3, 1;\n$L0:\n\tsetp.eq.b32 %p2, %r3, 0;");
    assert_one(&body_faults(&two_barriers(&flag, "%p2")), "different barriers");
}

#[test]
fn accepts_a_barrier_on_one_side_only() {
    let early_exit = format!("{BY_THREAD}\n\t@%p1 bra $L1;\n\tbar.sync 0;\n\tbar.sync 0;\n$L1:\n\tret;");
    assert_eq!(body_faults(&early_exit), [""; 0]);
    let early_return = format!("{BY_THREAD}\n\t@%p1 ret;\n\tbar.sync 0;\n\tret;");
    assert_eq!(body_faults(&early_return), [""; 0]);
    // Both sides lead to the same barrier, at $L2.
    let common =
        format!("{BY_THREAD}\n\t@%p1 bra $L1;\n\t@%p9 ret;\n\tbra.uni $L2;\n$L1:\n\tnop;\n$L2:\n\tbar.sync 0;\n\tret;");
    assert_eq!(body_faults(&common), [""; 0]);
}

/// Warps with different tasks wait at different named barriers. These have no result, though their numbers are registers.
#[test]
fn accepts_named_barriers_on_both_sides() {
    let named = two_barriers(BY_THREAD, "%p1").replace("bar.sync 0", "barrier.cta.sync %r8, %r9");
    assert_eq!(body_faults(&named), [""; 0]);
    assert_one(&body_faults(&named.replacen("\tbarrier", "\tbar.sync 0;\n\tbarrier", 2)), "different barriers");
}

#[test]
fn handles_loops() {
    let inside = |branch: &str| format!("$L0:\n{BY_THREAD}\n{branch}\n\t@%p3 bra $L0;\n\tbar.sync 0;\n\tret;");
    let clean = "\t@%p1 bra $L1;\n\tst.global.b32 [%rd1], %r2;\n$L1:\n\tbar.sync 0;";
    assert_eq!(body_faults(&inside(clean)), [""; 0]);
    // One side may leave the loop, so that the sides join after it only.
    let duplicated = "\t@%p1 bra $L1;\n\tbar.sync 0;\n\t@%p4 bra $L3;\n\tbra.uni $L2;\n$L1:\n\tbar.sync 0;\n$L2:";
    let text = inside(duplicated).replace("\tbar.sync 0;\n\tret;", "$L3:\n\tret;");
    assert_one(&body_faults(&text), "different barriers");
}

#[test]
fn follows_jump_tables() {
    let table = |last: &str| {
        format!(
            "{BY_THREAD}\n\t$L_brx_0: .branchtargets\n\t\t$L1,\n\t\t$L2,\n\t\t$L3;\n\tbrx.idx \t%r2, $L_brx_0;\n\
             $L1:\n\tbar.sync 0;\n\tbra.uni $L4;\n$L2:\n\tnop;\n\tbra.uni $L4;\n$L3:\n\t{last};\n$L4:\n\tret;"
        )
    };
    assert_eq!(body_faults(&table("nop")), [""; 0]);
    assert_one(&body_faults(&table("bar.sync 0")), "different barriers");
    assert_eq!(body_faults(&table("bar.sync 0").replace("%tid.x", "%ctaid.x")), [""; 0]);
}

#[test]
fn accepts_warps_divided_by_a_broadcast_value() {
    let by_warp = |lane: &str| {
        format!(
            "\tmov.u32 %r1, %tid.x;\n\tshr.u32 %r2, %r1, 5;\n\tshfl.sync.idx.b32 %r3, %r2, {lane}, 31, -1;\n\t\
             setp.eq.b32 %p1, %r3, 0;"
        )
    };
    let matrices =
        |lane: &str| two_barriers(&by_warp(lane), "%p1").replace("bar.sync 0", "mma.sync.aligned.m16n8k8 {%f1}, {%f2}");
    assert_eq!(body_faults(&matrices("0")), [""; 0]);
    assert_one(&body_faults(&matrices("%r1")), "different barriers");
    // A barrier of the block still needs all warps.
    assert_one(&body_faults(&two_barriers(&by_warp("0"), "%p1")), "different barriers");
}

#[test]
fn accepts_warp_barriers_with_a_mask() {
    let halves = two_barriers(BY_THREAD, "%p1").replace("bar.sync 0", "bar.warp.sync 1431655765");
    assert_eq!(body_faults(&halves), [""; 0]);
}

#[test]
fn reads_compiler_versions() {
    assert_eq!(compiler::parse_version("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some((1, 96)));
    assert_eq!(compiler::parse_version("rustc 1.97.0-nightly"), Some((1, 97)));
    assert_eq!(compiler::parse_version("clang 19"), None);
}

/// The faults of a safe kernel with this body, after these declarations.
fn safe_faults(declarations: &str, body: &str) -> Vec<String> {
    let text = module(declarations, body);
    let expected = entries_of("#[kernel(safe)] fn k() {}").expect("the source is read");
    assert!(expected.safe.contains("k"));
    audit::faults(&text, &ptx::parse(&text).expect("the module is read"), &Baseline::ampere(), &expected)
}

#[test]
fn refuses_collective_operations_of_safe_kernels_where_threads_divide() {
    let one_side = |operation: &str| format!("{BY_THREAD}\n\t@%p1 bra $L1;\n\t{operation};\n$L1:\n\tret;");
    for operation in ["bar.sync 0", "shfl.sync.down.b32 %r5|%p2, %r6, 1, 31, -1", "vote.sync.ballot.b32 %r5, %p3, -1"] {
        assert_one(&safe_faults("", &one_side(operation)), "not all threads reach line");
        // Where all threads meet again.
        let after = format!("{BY_THREAD}\n\t@%p1 bra $L1;\n\tmov.u32 %r5, 1;\n$L1:\n\t{operation};\n\tret;");
        assert_eq!(safe_faults("", &after), [""; 0]);
        // Other kernels may know better.
        assert_eq!(body_faults(&one_side(operation)), [""; 0]);
    }
    assert_one(&safe_faults("", &format!("{BY_THREAD}\n\t@%p1 bar.sync 0;\n\tret;")), "not all threads execute");
    // Each thread leaves the loop after another number of rounds.
    let round = format!("$L1:\n\tbar.sync 0;\n{BY_THREAD}\n\t@%p1 bra $L1;\n\tret;");
    assert_one(&safe_faults("", &round), "not all threads reach line");
    assert_one(&safe_faults("", "\tshfl.sync.down.b32 %r5|%p2, %r6, 1, 31, %r7;\n\tret;"), "names some lanes");
    assert_one(&safe_faults("", "\tbarrier.sync 1, 64;\n\tret;"), "barrier for some threads");
    // A register is the mask of all lanes if nothing else is written to it.
    let masked = |before: &str| format!("{before}\n\tredux.sync.max.u32 %r5, %r6, %r7;\n\tret;");
    assert_eq!(safe_faults("", &masked("\tmov.b32 \t%r7, -1;")), [""; 0]);
    for before in ["\tmov.b32 %r7, 65535;", "\tmov.b32 %r7, -1;\n\tadd.s32 %r7, %r7, %r6;", "\t@%p1 mov.b32 %r7, %r6;"]
    {
        assert_one(&safe_faults("", &masked(before)), "names some lanes");
    }
}

/// An index out of range stops the kernel for all threads: those that go on wait for nobody.
#[test]
fn accepts_collective_operations_behind_a_check() {
    let checked = |end: &str| {
        format!(
            "{BY_THREAD}\n\t@%p1 bra $L1;\n\tbar.sync 0;\n\tshfl.sync.down.b32 %r5|%p2, %r6, 1, 31, -1;\n\tret;\n$L1:\n\t{end};"
        )
    };
    assert_eq!(safe_faults("", &checked("trap")), [""; 0]);
    assert_eq!(safe_faults("", &checked("// begin inline asm\n\ttrap;\n\t// end inline asm\n\texit")), [""; 0]);
    assert_eq!(safe_faults("", &checked("exit")).len(), 2);
    // A thread that may go on is waited for.
    assert_eq!(safe_faults("", &checked("@%p3 trap;\n\tret")).len(), 2);
    // The same in a loop, with one more round for some threads.
    let round =
        "$L1:\n\tsetp.gt.u32 %p4, %r1, 7;\n\t@%p4 bra $L2;\n\tbar.sync 0;\n\t@%p9 bra $L1;\n\tret;\n$L2:\n\ttrap;";
    assert_eq!(safe_faults("", &format!("{BY_THREAD}\n{round}")), [""; 0]);
    assert_eq!(safe_faults("", &format!("{BY_THREAD}\n{}", round.replace("%p9", "%p1"))).len(), 1);
}

/// A thread that takes the way to a `trap` ends all others, so that none waits for it.
#[test]
fn ways_to_a_trap_divide_no_threads() {
    let guarded = |way: &str| format!("{BY_THREAD}\n\t@%p1 bra $L_F;\n\tbar.sync 0;\n\tret;\n$L_F:\n{way}");
    assert_eq!(safe_faults("", &guarded("\ttrap; exit;")), [""; 0]);
    assert_eq!(safe_faults("", &guarded("\tmov.u32 %r5, 1;\n\tbra.uni $L_G;\n$L_G:\n\ttrap;")), [""; 0]);
    assert_one(&safe_faults("", &guarded("\tret;")), "not all threads reach line");
    // A guarded `trap` may let threads pass.
    assert_one(&safe_faults("", &guarded("\t@%p2 trap;\n\tret;")), "not all threads reach line");
}

#[test]
fn refuses_other_arrays_in_shared_memory_of_safe_kernels() {
    let uses = |name: &str| {
        safe_faults(&format!(".shared .align 16 .b8 {name}[256];"), &format!("\tmov.u32 %r1, {name};\n\tret;"))
    };
    assert_one(&uses("mine_4_5"), "shared array mine_4_5");
    assert_one(&uses("tile_4_5"), "shared array tile_4_5");
    assert_one(&uses("block_4_5"), "shared array block_4_5");
    assert_eq!(uses("$tile_mine_4_5"), [""; 0]);
    assert_eq!(uses("$block_reduce_partial_36_19"), [""; 0]);
    let dynamic =
        safe_faults(".extern .shared .align 16 .b8 dynamic_shared[];", "\tmov.u64 %rd1, dynamic_shared;\n\tret;");
    assert_one(&dynamic, "shared array dynamic_shared");
}

#[test]
fn refuses_collective_operations_in_functions_that_safe_kernels_call() {
    let helper = ".func helper()\n{\n\tbar.sync 0;\n\tret;\n}";
    assert_one(&safe_faults(helper, "\tcall.uni helper, ();\n\tret;"), "not inlined");
}

/// A module of two files with one function of the library, which has two other files.
#[test]
fn lines_of_both_modules_are_kept() {
    let header = ".version 7.4\n.target sm_80\n.address_size 64\n";
    let text = format!(
        "{header}.extern .func helper\n();\n.visible .entry k()\n{{\n\t.loc\t2 7 5\n\tcall.uni helper, ();\n\tret;\n}}\n\
         .visible .entry other()\n{{\n\tret;\n}}\n\t.section\t.debug_macinfo\t{{\t}}\n\t.file\t1 \"a.rs\"\n\t.file\t2 \"b.rs\"\n"
    );
    let library = format!(
        "{header}.visible .func helper()\n{{\n$L__func_begin0:\n\t.loc\t1 3 1\n$L__tmp0:\n\tret;\n}}\n\t.file\t1 \"c.rs\"\n"
    );
    let linked = ptx::link(&text, &library).expect("the modules are linked");
    let files =
        |text: &str| text.lines().filter(|line| line.contains(".file")).map(str::trim).collect::<Vec<_>>().join(", ");
    assert_eq!(files(&linked), ".file\t1 \"a.rs\", .file\t2 \"b.rs\", .file\t3 \"c.rs\"");
    assert!(linked.contains("\t.loc\t2 7 5\n") && linked.contains("\t.loc\t3 3 1\n"), "{linked}");
    let module = ptx::parse(&linked).expect("the module is read");
    let alone = module.alone(&module.entries[0]);
    assert!(alone.contains(".loc\t3 3 1") && files(&alone) == files(&linked), "{alone}");
    assert!(ptx::parse("\t.file\tx\n").is_err());
}

#[test]
fn kernels_for_newer_gpus_are_in_their_baselines_only() {
    let expected = entries_of("#[kernel(sm = 90)] fn k() {} #[kernel(cluster = 4, T = [f32])] fn l() {}").unwrap();
    assert_eq!(expected.hopper, ["k", "l_f32"].map(str::to_owned).into());
    let alone = entries_of("#[kernel(sm = \"90a\")] fn k() {}").unwrap();
    assert!(alone.hopper_alone.contains("k") && alone.hopper.is_empty());
    let text = module("", "\tret;");
    assert_one(
        &audit::faults(&text, &ptx::parse(&text).unwrap(), &Baseline::ampere(), &alone),
        "no kernel for the entry k",
    );
    let text = text.replace("sm_80", "sm_90a").replace("7.4", "8.0");
    assert_eq!(audit::faults(&text, &ptx::parse(&text).unwrap(), &Baseline::hopper_alone(), &alone), [""; 0]);
    let text = module("", "\tret;");
    assert_one(
        &audit::faults(&text, &ptx::parse(&text).unwrap(), &Baseline::ampere(), &expected),
        "the sources declare no kernel for the entry k",
    );
    for line in ["barrier.cluster.arrive.aligned;", "mov.u32 %r1, %cluster_ctarank;", "fence.proxy.async.shared::cta;"]
    {
        assert_one(&body_faults(&format!("\t{line}\n\tret;")), "#[kernel(sm = 90)]");
    }
}
