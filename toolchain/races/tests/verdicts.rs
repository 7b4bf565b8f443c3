//! The proof of races' absence: on kernels written by hand, right and wrong, and on random ones, compared with brute force.

use warpkov_build::ptx;
use warpkov_races::program::Program;
use warpkov_races::replay::{Launch, race_of};
use warpkov_races::shape::{Extent, Shape};
use warpkov_races::{Verdict, check};

/// A module of the kernel `k` with three parameters, x and y (buffers) and n, and two shared arrays.
fn module(body: &str) -> String {
    let body: String = body
        .split(';')
        .map(str::trim)
        .map(|statement| match statement.rsplit_once(": ") {
            Some((label, rest)) => format!("{label}:\n\t{rest};\n"),
            None if statement.ends_with(':') => format!("{statement}\n"),
            None if statement.is_empty() => String::new(),
            None => format!("\t{statement};\n"),
        })
        .collect();
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 tile[4096];\n.shared .align 16 .b8 other[4096];\n\
         .visible .entry k(\n\t.param .u64 .ptr .align 4 k_param_0,\n\t.param .u64 .ptr .align 4 k_param_1,\n\t.param .u32 k_param_2\n)\n{{\n\
         \t.reg .pred %p<20>;\n\t.reg .b32 %r<60>;\n\t.reg .b64 %rd<60>;\n\
         \tmov.u32 %r1, %tid.x;\n\tmov.u32 %r2, %ntid.x;\n\tmov.u32 %r3, %ctaid.x;\n\tmov.u32 %r4, %nctaid.x;\n\
         \tld.param.u64 %rd1, [k_param_0];\n\tld.param.u64 %rd2, [k_param_1];\n\tld.param.u32 %r5, [k_param_2];\n\
         \tmul.wide.u32 %rd3, %r3, %r2;\n\tcvt.u64.u32 %rd4, %r1;\n\tadd.s64 %rd5, %rd3, %rd4;\n\
         \tshl.b64 %rd6, %rd5, 2;\n\tadd.s64 %rd7, %rd1, %rd6;\n\tadd.s64 %rd8, %rd2, %rd6;\n\
         \tmov.u32 %r6, tile;\n\tshl.b32 %r7, %r1, 2;\n\tadd.s32 %r8, %r6, %r7;\n{body}\tret;\n}}\n"
    )
}

fn verdict_of(body: &str, shape: impl Fn(Shape) -> Shape) -> Verdict {
    let text = module(body);
    let module = ptx::parse(&text).expect("the module is read");
    let entry = &module.entries[0];
    check(entry, &shape(Shape::any(entry).dimensions(1)))
}

#[track_caller]
fn assert_proven(body: &str) {
    assert_eq!(verdict_of(body, |shape| shape), Verdict::Proven(Vec::new()), "{body}");
}

/// The kernel is refuted by a launch, whose two accesses have these names.
#[track_caller]
fn assert_race(body: &str, accesses: [&str; 2]) {
    let verdict = verdict_of(body, |shape| shape);
    let Verdict::Race(race) = &verdict else { panic!("{body}: {verdict:?}") };
    assert!(accesses.iter().all(|name| race.accesses.contains(name)), "{body}: {race:?}");
}

#[track_caller]
fn assert_undecided(body: &str, class: &str) {
    let verdict = verdict_of(body, |shape| shape);
    assert!(matches!(&verdict, Verdict::Undecided(reason) if reason.class.contains(class)), "{body}: {verdict:?}");
}

#[test]
fn one_thread_per_element() {
    assert_proven("st.global.b32 [%rd7], %r1");
    // The own element may be read and written again.
    assert_proven("ld.global.b32 %r10, [%rd7]; add.s32 %r11, %r10, 1; st.global.b32 [%rd7], %r11");
    // Another buffer is read anywhere.
    assert_proven("ld.global.nc.b32 %r10, [%rd2+64]; st.global.b32 [%rd7], %r10");
    // Two numbers per thread, with a guard.
    assert_proven(
        "cvt.u64.u32 %rd10, %r5; setp.ge.u64 %p1, %rd5, %rd10; @%p1 bra $END; shl.b64 %rd11, %rd5, 3; add.s64 %rd12, %rd1, %rd11; \
         st.global.v2.b32 [%rd12], {%r1, %r2}; $END:",
    );
}

#[test]
fn two_threads_per_element() {
    assert_race("st.global.b32 [%rd1], %r1", ["st.global.b32"; 2]);
    // i / 2.
    assert_race(
        "shr.u64 %rd10, %rd5, 1; shl.b64 %rd11, %rd10, 2; add.s64 %rd12, %rd1, %rd11; st.global.b32 [%rd12], %r1",
        ["st.global.b32"; 2],
    );
    // The index in the block, of several blocks.
    assert_race(
        "shl.b64 %rd10, %rd4, 2; add.s64 %rd11, %rd1, %rd10; st.global.b32 [%rd11], %r1",
        ["block (0, 0, 0)", "block (1, 0, 0)"],
    );
    // Elements of 4 bytes, written as 8.
    assert_race("st.global.b64 [%rd7], %rd5", ["st.global.b64"; 2]);
}

#[test]
fn neighbours() {
    assert_race("st.global.b32 [%rd7], %r1; ld.global.b32 %r10, [%rd7+4]", ["st.global.b32", "ld.global.b32"]);
    // A barrier orders the threads of a block, not those of two blocks.
    assert_race(
        "st.global.b32 [%rd7], %r1; bar.sync 0; ld.global.b32 %r10, [%rd7+4]",
        ["block (0, 0, 0)", "block (1, 0, 0)"],
    );
    assert_race("st.shared.b32 [%r8], %r1; ld.shared.b32 %r10, [%r8+4]", ["st.shared.b32", "ld.shared.b32"]);
    assert_proven("st.shared.b32 [%r8], %r1; bar.sync 0; ld.shared.b32 %r10, [%r8+4]");
    // An early return before the read does not order it.
    assert_race(
        "st.shared.b32 [%r8], %r1; setp.eq.u32 %p1, %r1, 0; @%p1 bra $END; ld.shared.b32 %r10, [%r8+-4]; $END:",
        ["ld.shared.b32"; 2],
    );
    assert_proven("st.shared.b32 [%r8], %r1; mov.u32 %r10, other; add.s32 %r11, %r10, 4; ld.shared.b32 %r12, [%r11]");
}

#[test]
fn loops_over_tiles() {
    let tiles = |barrier: &str| {
        format!(
            "mov.b32 %r20, 0; $LOOP: st.shared.b32 [%r8], %r20; bar.sync 0; ld.shared.b32 %r21, [%r8+4]; {barrier} add.s32 %r20, %r20, 1; \
             setp.lt.u32 %p1, %r20, 4; @%p1 bra $LOOP; "
        )
    };
    assert_proven(&tiles("bar.sync 0;"));
    // The next round writes what another thread still reads.
    assert_race(&tiles(""), ["ld.shared.b32", "st.shared.b32"]);
}

#[test]
fn strides() {
    let stride = |step: &str| {
        format!(
            "cvt.u64.u32 %rd20, %r5; mul.wide.u32 %rd21, %r4, %r2; mov.b64 %rd22, %rd5; setp.ge.u64 %p1, %rd22, %rd20; @%p1 bra $END; \
             $LOOP: shl.b64 %rd23, %rd22, 2; add.s64 %rd24, %rd1, %rd23; st.global.b32 [%rd24], %r1; {step} \
             setp.lt.u64 %p2, %rd22, %rd20; @%p2 bra $LOOP; $END:"
        )
    };
    assert_proven(&stride("add.s64 %rd22, %rd22, %rd21;"));
    // One thread less than there are, and a block.
    assert_race(&stride("add.s64 %rd22, %rd22, %rd21; sub.s64 %rd22, %rd22, 1;"), ["st.global.b32"; 2]);
    assert_race(&stride("cvt.u64.u32 %rd25, %r2; add.s64 %rd22, %rd22, %rd25;"), ["st.global.b32"; 2]);
}

#[test]
fn row_pitches() {
    // Rows of n elements, a block each: right with a guard, wrong without.
    let rows = |guard: &str| {
        format!(
            "{guard} mul.wide.u32 %rd10, %r3, %r5; add.s64 %rd11, %rd10, %rd4; shl.b64 %rd12, %rd11, 2; add.s64 %rd13, %rd1, %rd12; \
             st.global.b32 [%rd13], %r1; $END:"
        )
    };
    assert_proven(&rows("setp.ge.u32 %p1, %r1, %r5; @%p1 bra $END;"));
    assert_race(&rows(""), ["block (0, 0, 0)", "block (1, 0, 0)"]);
    // Rows of 33 words hold 32, not 64 of two warps.
    let tile = "and.b32 %r10, %r1, 63; shr.u32 %r11, %r1, 6; mul.lo.s32 %r12, %r11, 33; add.s32 %r13, %r12, %r10; shl.b32 %r14, %r13, 2; \
                add.s32 %r15, %r6, %r14; st.shared.b32 [%r15], %r1";
    let wide =
        |shape: Shape| Shape { numbers: shape.numbers.into_iter().chain([(Extent::Block(0), 128)]).collect(), ..shape };
    assert!(matches!(verdict_of(tile, wide), Verdict::Race(_)));
    assert_eq!(verdict_of(&tile.replace(", 33", ", 65"), wide), Verdict::Proven(Vec::new()));
    assert_proven(&tile.replace("63", "31").replace("%r1, 6", "%r1, 5"));
}

#[test]
fn lanes_and_warps() {
    let first_lane = "and.b32 %r10, %r1, 31; setp.ne.u32 %p1, %r10, 0; @%p1 bra $END; shr.u32 %r11, %r1, 5; shl.b32 %r12, %r11, 2; \
                      add.s32 %r13, %r6, %r12; st.shared.b32 [%r13], %r1; $END:";
    assert_proven(first_lane);
    // The first two lanes.
    assert_race(&first_lane.replace("setp.ne.u32 %p1, %r10, 0", "setp.gt.u32 %p1, %r10, 1"), ["st.shared.b32"; 2]);
    // No lane.
    assert_proven(&first_lane.replace("%r10, 0", "%r10, 99"));
    let exchange = |barrier: &str| {
        format!(
            "xor.b32 %r10, %r7, 4; add.s32 %r11, %r6, %r10; st.shared.b32 [%r8], %r1; {barrier} ld.shared.b32 %r12, [%r11]"
        )
    };
    assert_proven(&exchange("bar.sync 0;"));
    assert_race(&exchange(""), ["st.shared.b32", "ld.shared.b32"]);
    // Thread 0 of the block alone.
    assert_proven(
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra $END; st.shared.b32 [%r6], %r5; $END: bar.sync 0; ld.shared.b32 %r10, [%r6]",
    );
    assert_race(
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra $END; st.shared.b32 [%r6], %r5; $END: ld.shared.b32 %r10, [%r6]",
        ["ld.shared.b32"; 2],
    );
}

#[test]
fn atomics() {
    assert_proven("atom.relaxed.gpu.global.add.u32 %r10, [%rd1], 1");
    assert_race(
        "atom.relaxed.gpu.global.add.u32 %r10, [%rd1], 1; ld.global.b32 %r11, [%rd1]",
        ["atom.relaxed", "ld.global.b32"],
    );
    // Of a block only.
    let verdict = verdict_of("atom.relaxed.cta.global.add.u32 %r10, [%rd1], 1", |shape| shape);
    assert!(!matches!(verdict, Verdict::Proven(_)), "{verdict:?}");
}

#[test]
fn asynchronous_copies() {
    let copy = |wait: &str| {
        format!(
            "shl.b32 %r10, %r1, 4; add.s32 %r11, %r6, %r10; shl.b64 %rd10, %rd5, 4; add.s64 %rd11, %rd2, %rd10; \
             cp.async.cg.shared.global [%r11], [%rd11], 16; {wait} bar.sync 0; ld.shared.b32 %r12, [%r11+16]"
        )
    };
    assert_proven(&copy("cp.async.wait_all;"));
    // The copy may be in flight when the neighbour reads.
    let verdict = verdict_of(&copy(""), |shape| shape);
    assert!(!matches!(verdict, Verdict::Proven(_)), "{verdict:?}");
    let source = "cp.async.cg.shared.global [%r8], [%rd7], 16; st.global.b32 [%rd7], %r1";
    assert!(!matches!(verdict_of(source, |shape| shape), Verdict::Proven(_)));
}

#[test]
fn what_is_not_understood_is_not_proven() {
    assert_undecided(
        "ld.global.b32 %r10, [%rd2]; mul.wide.u32 %rd10, %r10, 4; add.s64 %rd11, %rd1, %rd10; st.global.b32 [%rd11], %r1",
        "data",
    );
    assert_undecided("ld.global.b64 %rd10, [%rd2]; st.global.b32 [%rd10], %r1", "data");
    assert_undecided("call.uni f, ()", "a call");
    assert_undecided("wmma.store.d.sync.aligned.m16n16k16.shared.row.f32 [%r6], {%r1, %r2}, %r3", "does not know");
    assert_undecided("bra $ELSEWHERE", "no label");
    for odd in [
        "st.global.b32 [",
        "st.shared",
        "@%p1",
        "mov",
        "setp.lt %p1, %r1",
        "shl.b32 %r10, %r1, 99",
        "bra",
        "ld.param.b32 %r9, [k_param_9+x]",
    ] {
        // No panic.
        let _ = verdict_of(odd, |shape| shape);
    }
}

/// An index of 32 bits wraps if a grid is large enough.
#[test]
fn wrapped_indices() {
    let body = "mad.lo.s32 %r10, %r3, %r2, %r1; mul.wide.u32 %rd10, %r10, 4; add.s64 %rd11, %rd1, %rd10; st.global.b32 [%rd11], %r1";
    let verdict = verdict_of(body, |shape| shape);
    assert!(matches!(&verdict, Verdict::Proven(assumptions) if assumptions.len() == 1), "{verdict:?}");
}

/// No random kernel is proven in which brute force finds a race. `RACES_KERNELS` is their number.
#[test]
fn random_kernels_agree_with_brute_force() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut proven, mut racing) = (0, 0);
    let count = std::env::var("RACES_KERNELS").ok().and_then(|count| count.parse().ok()).unwrap_or(250);
    for _ in 0..count {
        // An index of some operations on thread, block, extents and n.
        let mut body = String::from("mov.b32 %r20, %r1; mov.b32 %r21, %r3;");
        for at in 22..22 + 2 + next(4) {
            let mut any =
                || ["%r1", "%r2", "%r3", "%r5", "%r20", "%r21", &format!("%r{}", at - 1)][next(7) as usize].to_owned();
            let (a, b) = (any(), any());
            let constant = [1, 2, 3, 4, 7, 8, 31, 32, 33][next(9) as usize];
            body += &match next(9) {
                0 | 1 => format!("mad.lo.s32 %r{at}, {a}, {constant}, {b};"),
                2 | 3 => format!("mad.lo.s32 %r{at}, {a}, %r2, {b};"),
                4 => format!("and.b32 %r{at}, {a}, {constant};"),
                5 => format!("shr.u32 %r{at}, {a}, {};", constant % 6),
                6 => format!("add.s32 %r{at}, {a}, {b};"),
                7 => format!("setp.lt.u32 %p2, {a}, {b}; selp.b32 %r{at}, {a}, {constant}, %p2;"),
                _ => format!("min.u32 %r{at}, {a}, {b};"),
            };
            body += &format!("mov.b32 %r50, %r{at};");
        }
        let guard = [
            "",
            "setp.ge.u32 %p1, %r1, %r5; @%p1 bra $END;",
            "setp.ne.u32 %p1, %r1, 0; @%p1 bra $END;",
            "setp.ge.u32 %p1, %r50, %r5; @%p1 bra $END;",
        ];
        let barrier = ["", "bar.sync 0;"][next(2) as usize];
        body += guard[next(4) as usize];
        body += &match next(3) {
            0 => format!(
                "shl.b32 %r51, %r50, 2; add.s32 %r52, %r6, %r51; st.shared.b32 [%r52], %r1; $END: {barrier} ld.shared.b32 %r53, [%r8];"
            ),
            1 => {
                "mul.wide.u32 %rd50, %r50, 4; add.s64 %rd51, %rd1, %rd50; st.global.b32 [%rd51], %r1; $END:".to_owned()
            }
            _ => format!(
                "mov.b32 %r54, %r50; $LOOP: mul.wide.u32 %rd50, %r54, 4; add.s64 %rd51, %rd1, %rd50; st.global.b32 [%rd51], %r1; \
                 add.s32 %r54, %r54, {}; setp.lt.u32 %p3, %r54, %r5; @%p3 bra $LOOP; $END:",
                ["%r2", "%r4", "8", "1"][next(4) as usize]
            ),
        };
        let text = module(&body);
        let module = ptx::parse(&text).expect("the module is read");
        let entry = &module.entries[0];
        let shape = Shape::any(entry).dimensions(1);
        let program = Program::new(entry).expect("the kernel is read");
        let race = [1, 2, 5, 8, 33, 64].into_iter().find_map(|threads| {
            (1..4).find_map(|blocks| {
                [0, 1, 2, 5, 8, 40].into_iter().find_map(|n| {
                    let launch = Launch { block: [threads, 1, 1], grid: [blocks, 1, 1], parameters: vec![0, 0, n] };
                    race_of(&program, &shape, &launch)
                })
            })
        });
        let verdict = check(entry, &shape);
        racing += usize::from(race.is_some());
        proven += usize::from(matches!(verdict, Verdict::Proven(_)));
        if let (Verdict::Proven(_), Some(race)) = (&verdict, &race) {
            panic!("{body}\nis {verdict:?}, and {race:?}");
        }
    }
    assert!(proven > 20 && racing > 60, "{proven} proven, {racing} with a race");
}
