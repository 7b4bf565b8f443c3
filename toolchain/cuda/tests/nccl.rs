//! Several GPUs that exchange data through NCCL. Every rank is a thread with a GPU of its own.
//!
//! The tests return at once, and print the reason, if there are too few GPUs or no NCCL library;
//! `WARPKOV_REQUIRE_NCCL=1` makes this an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use warpkov_cuda::{Baseline, Communicator, CudaError, Entry, Gpu, GpuBuffer, Modules, Reduction, nccl_version};
use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Arg, Buffer, Call, Device, Shape};

/// The timeout of ranks that are not expected to wait long.
const PATIENT: Duration = Duration::from_secs(60);

/// The timeout of ranks that wait in vain.
const SHORT: Duration = Duration::from_secs(3);

/// The longest time between the timeout of a rank and its end: two seconds for the abort, and the rest for the driver.
const GRACE: Duration = Duration::from_secs(12);

/// `await_flag(flag, out, ns)`: waits until `*flag ≠ 0`, for at most `ns` nanoseconds, and writes `*flag` to `*out`.
const PTX: &str = "
.version 7.4
.target sm_80
.address_size 64
.visible .entry await_flag(.param .u64 flag, .param .u64 out, .param .u64 ns)
{
    .reg .pred %p<3>;
    .reg .b64 %r<9>;
    ld.param.u64 %r1, [flag];
    ld.param.u64 %r2, [out];
    ld.param.u64 %r3, [ns];
    cvta.to.global.u64 %r4, %r1;
    cvta.to.global.u64 %r5, %r2;
    mov.u64 %r6, %globaltimer;
AGAIN:
    ld.volatile.global.u64 %r7, [%r4];
    setp.ne.u64 %p1, %r7, 0;
    @%p1 bra DONE;
    mov.u64 %r8, %globaltimer;
    sub.u64 %r8, %r8, %r6;
    setp.lt.u64 %p2, %r8, %r3;
    @%p2 bra AGAIN;
DONE:
    st.global.u64 [%r5], %r7;
    ret;
}
";

fn modules() -> &'static Modules {
    static MODULES: OnceLock<&Modules> = OnceLock::new();
    MODULES.get_or_init(|| {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, PTX.as_bytes()).unwrap();
        let data = encoder.finish().unwrap().leak();
        let at = vec![0, data.len()].leak();
        let entries = vec![Entry { name: "await_flag", params: &[8, 8, 8], at }].leak();
        let baselines = vec![Baseline { sm: 80, alone: false, ptx: (7, 4), machine: &[], data, entries }].leak();
        Box::leak(Box::new(Modules { compiler: Ok("a test"), assembler: None, baselines }))
    })
}

/// Launches `await_flag` for `flag[0]` and `out[0]`.
fn await_flag(gpu: &Gpu, flag: &GpuBuffer<u64>, out: &mut GpuBuffer<u64>, limit: Duration) -> Result<(), CudaError> {
    let args = [flag.arg(), out.arg(), Arg::scalar(limit.as_nanos() as u64)];
    let call = Call {
        kernel: "await_flag",
        entry: "await_flag",
        shape: Shape::new(1, 1),
        args: &args,
        cluster: 1,
        thread: |_| unreachable!("a GPU"),
    };
    // SAFETY: the arguments are those of the entry point; both buffers have an element.
    unsafe { gpu.launch(call) }
}

/// The number of ranks, one a GPU, if there are at least `least`. The tests take turns: two communicators of the same
/// GPUs could wait for each other.
fn ranks(least: u32) -> Option<(u32, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    let why = match (Gpu::count(), nccl_version()) {
        (Err(error), _) | (_, Err(error)) => error.to_string(),
        (Ok(count), _) if count < least => format!("there are {count} GPUs, and {least} are needed"),
        (Ok(count), Ok(version)) => {
            let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
            println!("{count} GPUs, NCCL {version}");
            return Some((count.min(8), turn));
        }
    };
    assert!(std::env::var_os("WARPKOV_REQUIRE_NCCL").is_none_or(|value| value != "1"), "{why}");
    println!("skipped: {why}");
    None
}

/// Calls `rank` on a thread per rank, with its GPU and communicator, and returns the results in the order of the ranks.
fn run<R: Send>(size: u32, timeout: Duration, rank: impl Fn(&Gpu, &Communicator) -> R + Sync) -> Vec<R> {
    let id = Communicator::unique_id().unwrap();
    let one = |at: u32| {
        let gpu = Gpu::open(at, modules()).unwrap();
        let communicator = Communicator::new(&gpu, &id, at, size, timeout).unwrap();
        assert_eq!((communicator.rank(), communicator.size(), communicator.timeout()), (at, size, timeout));
        rank(&gpu, &communicator)
    };
    let one = &one;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..size).map(|at| scope.spawn(move || one(at))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Sends `source` to the next rank and receives `target` from the one before.
fn ring<T: DeviceCopy>(
    ranks: &Communicator,
    source: &GpuBuffer<T>,
    target: &mut GpuBuffer<T>,
) -> Result<(), CudaError> {
    let (rank, size, all) = (ranks.rank(), ranks.size(), 0..source.len());
    let (next, last) = ((rank + 1) % size, (rank + size - 1) % size);
    // SAFETY: all ranks call this with buffers of the same length.
    unsafe { ranks.exchange(source, &[(next, all.clone())], target, &[(last, all)]) }
}

/// Waits until `count` threads have called this with the same counter. Unlike a `Barrier`, panics if one never does.
fn meet(counter: &AtomicU32, count: u32) {
    counter.fetch_add(1, Ordering::SeqCst);
    await_count(counter, count);
}

fn await_count(counter: &AtomicU32, count: u32) {
    let start = Instant::now();
    while counter.load(Ordering::SeqCst) < count {
        assert!(start.elapsed() < PATIENT, "{counter:?} of {count} threads are here");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether this is the error of a rank that waited in vain.
fn timed_out(error: &CudaError, expected: u32) -> bool {
    matches!(error, CudaError::RankTimeout { rank, waited, .. } if *rank == expected && *waited == SHORT)
}

#[test]
fn values_travel_around_a_ring() {
    let Some((size, _turn)) = ranks(1) else { return };
    for len in [1, 1000, 3_000_001] {
        run(size, PATIENT, |gpu, ranks| {
            let own: Vec<f64> = (0..len).map(|at| f64::from(ranks.rank()) * 1e7 + f64::from(at)).collect();
            let (mut here, mut there) = (gpu.upload(&own).unwrap(), gpu.zeros(own.len()).unwrap());
            for step in 1..=size {
                ring(ranks, &here, &mut there).unwrap();
                std::mem::swap(&mut here, &mut there);
                let from = f64::from((ranks.rank() + size - step % size) % size);
                let seen = gpu.to_vec(&here).unwrap();
                assert!(seen.iter().zip(0..len).all(|(&x, at)| x == from * 1e7 + f64::from(at)));
            }
        });
    }
}

#[test]
fn parts_of_different_sizes_are_exchanged_in_place() {
    let Some((size, _turn)) = ranks(1) else { return };
    // Part r has r elements: that of rank 0 is empty. Every rank sends its part to all others.
    let part = |rank: u32| (rank * rank.saturating_sub(1) / 2) as usize..(rank * (rank + 1) / 2) as usize;
    let whole = part(size - 1).end + 1;
    let seen = run(size, PATIENT, |gpu, ranks| {
        let own = part(ranks.rank());
        let values: Vec<u32> = (0..whole).map(|at| if own.contains(&at) { 100 + at as u32 } else { 7 }).collect();
        let mut buffer = gpu.upload(&values).unwrap();
        let others = || (0..size).filter(|&other| other != ranks.rank());
        let sends: Vec<_> = others().map(|other| (other, own.clone())).collect();
        let receives: Vec<_> = others().map(|other| (other, part(other))).collect();
        // SAFETY: every rank sends its part to all others, which receive as many elements.
        unsafe { ranks.exchange_in_place(&mut buffer, &sends, &receives) }.unwrap();
        gpu.to_vec(&buffer).unwrap()
    });
    let expected: Vec<u32> = (0..whole).map(|at| if at + 1 < whole { 100 + at as u32 } else { 7 }).collect();
    assert!(seen.iter().all(|seen| *seen == expected), "{seen:?}");
}

#[test]
fn wrong_ranges_and_ranks_panic_before_nccl_is_called() {
    let Some((_, _turn)) = ranks(1) else { return };
    run(1, PATIENT, |gpu, ranks| {
        let mut buffer = gpu.zeros::<f64>(4).unwrap();
        let mut panics = |sends: &[_], receives: &[_]| {
            // SAFETY: the call panics, or exchanges with this rank itself.
            let call = || unsafe { ranks.exchange_in_place(&mut buffer, sends, receives) };
            catch_unwind(AssertUnwindSafe(call)).is_err()
        };
        assert!(panics(&[(0, 0..5)], &[]));
        assert!(panics(&[(1, 0..1)], &[]));
        assert!(panics(&[(0, 0..2)], &[(0, 1..3)]));
        assert!(panics(&[], &[(0, 0..2), (0, 1..3)]));
        assert!(!panics(&[(0, 2..2)], &[(0, 2..2)]));
        assert!(!panics(&[(0, 0..2)], &[(0, 2..4)]));
        ranks.check().unwrap();
    });
}

#[test]
fn numbers_are_reduced_gathered_and_broadcast() {
    let Some((size, _turn)) = ranks(1) else { return };
    let n = f64::from(size);
    let seen = run(size, PATIENT, |gpu, ranks| {
        let rank = ranks.rank();
        let mut floats = gpu.upload(&[f64::from(rank), -f64::from(rank), 0.5, 9.0]).unwrap();
        let mut integers = gpu.upload(&[u64::MAX - u64::from(rank), u64::from(rank) << 40]).unwrap();
        let mut parts = gpu.upload(&vec![rank as u16; 3 * size as usize + 1]).unwrap();
        let mut bytes = gpu.upload(&[rank as u8; 5]).unwrap();
        // SAFETY: all ranks call the same operations.
        unsafe {
            ranks.all_reduce(&mut floats, 0..2, Reduction::Max).unwrap();
            ranks.all_reduce(&mut floats, 2..3, Reduction::Sum).unwrap();
            ranks.all_reduce(&mut integers, 0..2, Reduction::Max).unwrap();
            ranks.all_gather(&mut parts, 1, 3).unwrap();
            ranks.broadcast(&mut bytes, 1..4, size - 1).unwrap();
        }
        ranks.synchronize().unwrap();
        assert_eq!(gpu.to_vec(&floats).unwrap(), [n - 1.0, 0.0, 0.5 * n, 9.0]);
        assert_eq!(gpu.to_vec(&integers).unwrap(), [u64::MAX, u64::from(size - 1) << 40]);
        let last = size as u8 - 1;
        assert_eq!(gpu.to_vec(&bytes).unwrap(), [rank as u8, last, last, last, rank as u8]);
        gpu.to_vec(&parts).unwrap()
    });
    for (rank, seen) in seen.iter().enumerate() {
        let gathered = (0..size as u16).flat_map(|part| [part; 3]);
        let expected: Vec<u16> = std::iter::once(rank as u16).chain(gathered).collect();
        assert_eq!(*seen, expected);
    }
}

#[test]
fn a_graph_of_exchanges_is_replayed() {
    let Some((size, _turn)) = ranks(1) else { return };
    let n = f64::from(size);
    run(size, PATIENT, |gpu, ranks| {
        let rank = f64::from(ranks.rank());
        let (mut here, mut there) = (gpu.upload(&vec![rank; 1000]).unwrap(), gpu.zeros(1000).unwrap());
        let mut sum = gpu.upload(&[rank + 1.0]).unwrap();
        let graph = gpu.capture(|| {
            // SAFETY: all ranks capture the same operations, and `sum` is not part of the ring.
            unsafe {
                let request = ranks.start(|| ring(ranks, &here, &mut there))?;
                ranks.all_reduce(&mut sum, 0..1, Reduction::Sum)?;
                request.wait()?;
            }
            ring(ranks, &there, &mut here)
        });
        let graph = graph.unwrap().expect("a GPU records");
        for replay in 1..=3 {
            // SAFETY: the buffers exist, and all ranks replay the graph.
            unsafe { gpu.launch_graph(&graph) }.unwrap();
            if replay == 2 {
                // An operation outside of the graph, between its replays.
                // SAFETY: all ranks call this.
                unsafe { ranks.all_reduce(&mut sum, 0..1, Reduction::Max) }.unwrap();
            }
        }
        // Every replay moves the values by two ranks, and multiplies the sum by the number of ranks.
        let from = (ranks.rank() + 6 * size - 6) % size;
        assert!(gpu.to_vec(&here).unwrap().iter().all(|&x| x == f64::from(from)));
        assert_eq!(gpu.to_vec(&sum).unwrap(), [n * (n + 1.0) / 2.0 * n * n]);
    });
}

#[test]
fn a_group_runs_beside_other_work() {
    let Some((size, _turn)) = ranks(1) else { return };
    run(size, PATIENT, |gpu, ranks| {
        let rank = f64::from(ranks.rank());
        let last = f64::from((ranks.rank() + size - 1) % size);
        let own = gpu.upload(&vec![rank; 1000]).unwrap();
        let (mut there, mut most) = (gpu.zeros(1000).unwrap(), gpu.upload(&[7.0, rank]).unwrap());
        let mut cleared = gpu.upload(&[1.0; 10]).unwrap();
        let mut both = |context: &mut ()| {
            let group = |there: &mut GpuBuffer<f64>, most: &mut GpuBuffer<f64>| {
                // SAFETY: all ranks call this, and the operations use different buffers.
                unsafe {
                    ranks.group(|| {
                        ring(ranks, &own, there)?;
                        ranks.all_reduce(most, 1..2, Reduction::Max)
                    })
                }
            };
            // SAFETY: the sides use different buffers.
            unsafe { gpu.beside(context, |_| group(&mut there, &mut most), |_| gpu.clear(&mut cleared)) }
        };
        both(&mut ()).unwrap();
        let graph = gpu.capture(|| both(&mut ())).unwrap().expect("a GPU records");
        assert_eq!(gpu.to_vec(&there).unwrap(), vec![last; 1000]);
        assert_eq!(gpu.to_vec(&most).unwrap(), [7.0, f64::from(size - 1)]);
        assert_eq!(gpu.to_vec(&cleared).unwrap(), [0.0; 10]);
        for buffer in [&mut there, &mut cleared] {
            let len = buffer.len();
            gpu.write(buffer, &vec![-1.0; len]).unwrap();
        }
        gpu.write(&mut most, &[7.0, rank]).unwrap();
        // SAFETY: the buffers exist, and all ranks replay the graph.
        unsafe { gpu.launch_graph(&graph) }.unwrap();
        assert_eq!(gpu.to_vec(&there).unwrap(), vec![last; 1000]);
        assert_eq!(gpu.to_vec(&most).unwrap(), [7.0, f64::from(size - 1)]);
        assert_eq!(gpu.to_vec(&cleared).unwrap(), [0.0; 10]);
    });
}

#[test]
fn a_graph_outlives_its_communicator() {
    let Some((size, _turn)) = ranks(1) else { return };
    let id = Communicator::unique_id().unwrap();
    let one = |at: u32| {
        let gpu = Gpu::open(at, modules()).unwrap();
        let mut sum = gpu.upload(&[1.0]).unwrap();
        let ranks = Communicator::new(&gpu, &id, at, size, PATIENT).unwrap();
        // SAFETY: all ranks capture this.
        let graph = gpu.capture(|| unsafe { ranks.all_reduce(&mut sum, 0..1, Reduction::Sum) }).unwrap().unwrap();
        drop(ranks);
        // SAFETY: the buffer exists, and all ranks replay the graph.
        unsafe { gpu.launch_graph(&graph) }.unwrap();
        drop(graph);
        assert_eq!(gpu.to_vec(&sum).unwrap(), [f64::from(size)]);
    };
    thread::scope(|scope| (0..size).for_each(|at| drop(scope.spawn(move || one(at)))));
}

#[test]
fn kernels_run_during_an_exchange() {
    let Some((size, _turn)) = ranks(2) else { return };
    let kernels = AtomicU32::new(0);
    run(size, PATIENT, |gpu, ranks| {
        let own = gpu.upload(&[1 + u64::from(ranks.rank())]).unwrap();
        let (mut received, mut seen) = (gpu.zeros(1).unwrap(), gpu.zeros(1).unwrap());
        // Connects the GPUs and loads the kernel.
        ring(ranks, &own, &mut received).unwrap();
        await_flag(gpu, &own, &mut seen, SHORT).unwrap();
        gpu.clear(&mut received).unwrap();
        gpu.synchronize().unwrap();
        let last = u64::from((ranks.rank() + size - 1) % size);
        if ranks.rank() > 0 {
            // Rank 0 receives nothing before its first kernel has ended.
            await_count(&kernels, 1);
        }
        // SAFETY: the second kernel reads one aligned word of the memory that is received, and that at any time.
        let request = unsafe { ranks.start(|| ring(ranks, &own, &mut received)) }.unwrap();
        if ranks.rank() == 0 {
            // The kernel does not wait for the exchange, which waits for the other ranks.
            await_flag(gpu, &own, &mut seen, SHORT).unwrap();
            ranks.wait_event(&gpu.record_event().unwrap(), PATIENT).unwrap();
            kernels.fetch_add(1, Ordering::SeqCst);
        }
        // The exchange does not wait for this kernel, which waits for it: else the kernel ends with 0, after 20 s.
        await_flag(gpu, &received, &mut seen, Duration::from_secs(20)).unwrap();
        request.wait().unwrap();
        assert_eq!(gpu.to_vec(&received).unwrap(), [1 + last]);
        assert_eq!(gpu.to_vec(&seen).unwrap(), [1 + last]);
    });
}

#[test]
fn operations_after_a_request_wait_for_it() {
    let Some((size, _turn)) = ranks(1) else { return };
    run(size, PATIENT, |gpu, ranks| {
        let own = gpu.upload(&vec![f64::from(ranks.rank()); 1 << 22]).unwrap();
        let mut received = gpu.zeros(own.len()).unwrap();
        for _ in 0..4 {
            gpu.clear(&mut received).unwrap();
            // SAFETY: nothing uses the buffers before the request is dropped.
            drop(unsafe { ranks.start(|| ring(ranks, &own, &mut received)) }.unwrap());
            let last = f64::from((ranks.rank() + size - 1) % size);
            assert!(gpu.to_vec(&received).unwrap().iter().all(|&x| x == last));
        }
        let event = gpu.record_event().unwrap();
        ranks.wait_event(&event, PATIENT).unwrap();
    });
}

#[test]
fn a_rank_that_never_comes_ends_the_others_in_time() {
    let Some((size, _turn)) = ranks(1) else { return };
    let id = Communicator::unique_id().unwrap();
    let one = |at: u32| {
        let gpu = Gpu::open(at, modules()).unwrap();
        let start = Instant::now();
        let error = Communicator::new(&gpu, &id, at, size + 1, SHORT).err().expect("a rank is missing");
        assert!(timed_out(&error, at), "{error}");
        assert!(start.elapsed() < SHORT + GRACE, "{:?}", start.elapsed());
        let buffer = gpu.upload(&[at]).unwrap();
        assert_eq!(gpu.to_vec(&buffer).unwrap(), [at]);
    };
    let one = &one;
    thread::scope(|scope| (0..size).for_each(|at| drop(scope.spawn(move || one(at)))));
}

/// Rank 0 leaves in its way after one exchange. The others, connected by now, wait for it in vain, and end in time.
fn leave(size: u32, leave: impl Fn(&Communicator) + Sync) {
    let [left, ended] = [AtomicU32::new(0), AtomicU32::new(0)];
    run(size, SHORT, |gpu, ranks| {
        let own = gpu.upload(&vec![1.0; 1 << 16]).unwrap();
        let mut received = gpu.zeros(own.len()).unwrap();
        ring(ranks, &own, &mut received).unwrap();
        ranks.synchronize().unwrap();
        meet(&left, size);
        if ranks.rank() == 0 {
            leave(ranks);
        } else {
            let start = Instant::now();
            // Only its neighbours wait for rank 0 itself: a sum has everybody wait.
            // SAFETY: rank 0 never calls this, which is the point.
            let error = unsafe { ranks.all_reduce(&mut received, 0..1, Reduction::Sum) }
                .and_then(|()| gpu.to_vec(&received).map(drop))
                .expect_err("rank 0 has left");
            assert!(timed_out(&error, ranks.rank()), "{error}");
            assert!(start.elapsed() < SHORT + GRACE, "{:?}", start.elapsed());
            assert_eq!(ring(ranks, &own, &mut received), Err(error));
        }
        meet(&ended, size);
        // The GPU is as good as ever.
        assert!(gpu.to_vec(&own).unwrap().iter().all(|&x| x == 1.0));
    });
    // So is a new communicator.
    run(size, PATIENT, |gpu, ranks| {
        let mut sum = gpu.upload(&[1_u64]).unwrap();
        // SAFETY: all ranks call this.
        unsafe { ranks.all_reduce(&mut sum, 0..1, Reduction::Sum) }.unwrap();
        assert_eq!(gpu.to_vec(&sum).unwrap(), [u64::from(size)]);
    });
}

#[test]
fn a_rank_that_stays_away_ends_the_others_in_time() {
    let Some((size, _turn)) = ranks(2) else { return };
    leave(size, |_| {});
}

#[test]
fn a_rank_that_aborts_ends_the_others_in_time() {
    let Some((size, _turn)) = ranks(2) else { return };
    leave(size, |ranks| {
        ranks.abort();
        ranks.abort();
        assert!(matches!(ranks.check(), Err(CudaError::Aborted { rank: 0, .. })));
        assert!(matches!(ranks.synchronize(), Err(CudaError::Aborted { .. })));
    });
}

#[test]
fn a_rank_that_panics_ends_at_once_and_the_others_in_time() {
    let Some((size, _turn)) = ranks(2) else { return };
    let ends = run(size, SHORT, |gpu, ranks| {
        let mut sum = gpu.upload(&[1.0]).unwrap();
        // SAFETY: all ranks call this.
        let add = |sum: &mut GpuBuffer<f64>| unsafe { ranks.all_reduce(sum, 0..1, Reduction::Sum) };
        add(&mut sum).and_then(|()| ranks.synchronize()).unwrap();
        if ranks.rank() > 0 {
            let start = Instant::now();
            let end = add(&mut sum).and_then(|()| ranks.synchronize());
            return (end, start.elapsed());
        }
        let start = Instant::now();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            // Freed while its operation waits for the other ranks, of which one never comes to a second sum.
            let mut unfinished = gpu.zeros::<f64>(1).unwrap();
            add(&mut unfinished).and_then(|()| add(&mut unfinished)).unwrap();
            panic!("as planned");
        }));
        assert!(panic.is_err());
        (ranks.check(), start.elapsed())
    });
    for (rank, (end, elapsed)) in ends.iter().enumerate() {
        assert!(*elapsed < SHORT + GRACE, "rank {rank}: {elapsed:?}");
        if rank == 0 {
            assert!(matches!(end, Err(CudaError::RankTimeout { rank: 0, .. })), "{end:?}");
        }
    }
}

#[test]
fn a_graph_of_an_aborted_communicator_is_refused() {
    let Some((_, _turn)) = ranks(1) else { return };
    run(1, SHORT, |gpu, ranks| {
        let mut sum = gpu.upload(&[1.0]).unwrap();
        // SAFETY: there is one rank.
        let graph = gpu.capture(|| unsafe { ranks.all_reduce(&mut sum, 0..1, Reduction::Sum) }).unwrap().unwrap();
        ranks.abort();
        // SAFETY: the buffer exists.
        let refused = unsafe { gpu.launch_graph(&graph) };
        assert!(matches!(refused, Err(CudaError::Aborted { .. })), "{refused:?}");
        assert_eq!(gpu.to_vec(&sum).unwrap(), [1.0]);
    });
}

#[test]
fn a_rank_may_allocate_free_and_load_while_others_wait_for_it() {
    let Some((size, _turn)) = ranks(2) else { return };
    run(size, Duration::from_secs(20), |gpu, ranks| {
        let mut sum = gpu.upload(&[1.0]).unwrap();
        // SAFETY: all ranks call this.
        let mut add = || unsafe { ranks.all_reduce(&mut sum, 0..1, Reduction::Sum) };
        add().and_then(|()| ranks.synchronize()).unwrap();
        let spare = gpu.upload(&vec![0_u8; 1 << 20]).unwrap();
        if ranks.rank() == 0 {
            // The others are within the second sum by then.
            thread::sleep(Duration::from_millis(500));
            drop(spare);
            let flag = gpu.upload(&vec![1_u64; 1 << 22]).unwrap();
            let mut seen = gpu.zeros(1).unwrap();
            await_flag(gpu, &flag, &mut seen, SHORT).unwrap();
            assert_eq!(gpu.to_vec(&seen).unwrap(), [1]);
        }
        add().and_then(|()| ranks.synchronize()).unwrap();
        let n = f64::from(size);
        assert_eq!(gpu.to_vec(&sum).unwrap(), [n * n]);
    });
}

#[test]
fn memory_of_dropped_buffers_is_used_again() {
    let Some((size, _turn)) = ranks(1) else { return };
    run(size, PATIENT, |gpu, _| {
        let address = |buffer: &GpuBuffer<u32>| match buffer.arg() {
            Arg::Buffer { address, .. } => address,
            Arg::Scalar { .. } | Arg::Tensor(_) | Arg::Grid => unreachable!("the argument of a buffer"),
        };
        let one = gpu.upload(&[7_u32; 1 << 12]).unwrap();
        let (first, (free, _)) = (address(&one), gpu.memory().unwrap());
        drop(one);
        assert!(gpu.memory().unwrap().0 > free);
        let smaller = gpu.zeros(1 << 11).unwrap();
        let two = gpu.zeros(1 << 12).unwrap();
        assert!(address(&two) == first && address(&smaller) != first);
        assert!(gpu.to_vec(&two).unwrap().iter().all(|&x| x == 0));
    });
}

#[test]
fn threads_use_their_gpus_independently() {
    let Some((size, _turn)) = ranks(1) else { return };
    let one = |at: u32| {
        for round in 0..3_u64 {
            let gpu = Gpu::open(at, modules()).unwrap();
            assert_eq!(gpu.ordinal(), at);
            let flag = gpu.upload(&[1 + u64::from(at) + 100 * round]).unwrap();
            let mut seen = gpu.zeros(1).unwrap();
            let graph = gpu.capture(|| await_flag(&gpu, &flag, &mut seen, SHORT)).unwrap().unwrap();
            // SAFETY: the buffers exist.
            unsafe { gpu.launch_graph(&graph) }.unwrap();
            if at == 0 {
                drop(Gpu::stop());
            }
            assert_eq!(gpu.to_vec(&seen).unwrap(), [1 + u64::from(at) + 100 * round]);
        }
    };
    let one = &one;
    thread::scope(|scope| (0..size).for_each(|at| drop(scope.spawn(move || one(at)))));
}

#[test]
fn the_listing_names_peers() {
    let Some((_, _turn)) = ranks(1) else { return };
    let gpus = Gpu::list(modules()).unwrap();
    for gpu in &gpus {
        println!("{} {}: peers {:?}", gpu.ordinal, gpu.pci, gpu.peers);
        let mut peers = gpu.peers.clone();
        peers.sort_unstable();
        peers.dedup();
        assert_eq!(peers.len(), gpu.peers.len());
        assert!(peers.iter().all(|&peer| peer != gpu.ordinal && (peer as usize) < gpus.len()));
    }
}

/// Prints the time of an operation; `cargo test -p warpkov-cuda --test nccl -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn times() {
    const COUNT: u32 = 200;

    let Some((size, _turn)) = ranks(1) else { return };
    for len in [1, 1 << 10, 1 << 17, 1 << 24] {
        let times = run(size, PATIENT, |gpu, ranks| {
            let (own, mut received) = (gpu.zeros::<f64>(len).unwrap(), gpu.zeros(len).unwrap());
            let mut sum = gpu.zeros::<f64>(1).unwrap();
            let mut step = || {
                ring(ranks, &own, &mut received)?;
                // SAFETY: all ranks call this.
                unsafe { ranks.all_reduce(&mut sum, 0..1, Reduction::Max) }
            };
            step().and_then(|()| gpu.synchronize()).unwrap();
            let start = Instant::now();
            (0..COUNT).try_for_each(|_| step()).and_then(|()| gpu.synchronize()).unwrap();
            let submitted = start.elapsed() / COUNT;
            let graph = gpu.capture(|| (0..COUNT).try_for_each(|_| step())).unwrap().unwrap();
            let replay = || {
                // SAFETY: the buffers exist, and all ranks replay the graph.
                unsafe { gpu.launch_graph(&graph) }.and_then(|()| gpu.synchronize()).unwrap();
            };
            replay();
            let start = Instant::now();
            replay();
            (submitted, start.elapsed() / COUNT)
        });
        let (submitted, replayed) = times[0];
        println!("{len} f64 to the next of {size} ranks, and a maximum: {submitted:?}, in a graph {replayed:?}");
    }
}
