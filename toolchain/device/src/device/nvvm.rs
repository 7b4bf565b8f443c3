//! The NVVM intrinsics of LLVM that the device library uses.
//!
//! Barriers, shuffles and votes are intrinsics, not inline PTX: LLVM knows that intrinsics are convergent, and
//! therefore never moves or duplicates them across a branch.

#[allow(improper_ctypes)]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    pub fn barrier(barrier: u32);
    #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
    pub fn barrier_count(barrier: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.barrier.cta.red.and.aligned.all"]
    pub fn barrier_and(barrier: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
    pub fn barrier_or(barrier: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.sync.count"]
    pub fn barrier_some(barrier: u32, threads: u32);
    #[link_name = "llvm.nvvm.barrier.cta.arrive.count"]
    pub fn barrier_arrive(barrier: u32, threads: u32);
    #[link_name = "llvm.nvvm.barrier.cluster.arrive.aligned"]
    pub fn cluster_arrive();
    #[link_name = "llvm.nvvm.barrier.cluster.wait.aligned"]
    pub fn cluster_wait();
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    pub fn warp_sync(mask: u32);

    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    pub fn shuffle_index(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    pub fn shuffle_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    pub fn shuffle_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    pub fn shuffle_xor(mask: u32, value: u32, lanes: u32, clamp: u32) -> u32;

    #[link_name = "llvm.nvvm.vote.all.sync"]
    pub fn vote_all(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    pub fn vote_any(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    pub fn vote_ballot(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.vote.uni.sync"]
    pub fn vote_uniform(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    pub fn match_any(mask: u32, value: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i64"]
    pub fn match_any_wide(mask: u32, value: u64) -> u32;
    #[link_name = "llvm.nvvm.activemask"]
    pub fn active_mask() -> u32;

    #[link_name = "llvm.nvvm.redux.sync.add"]
    pub fn redux_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    pub fn redux_max(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    pub fn redux_min(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.max"]
    pub fn redux_max_signed(value: i32, mask: u32) -> i32;
    #[link_name = "llvm.nvvm.redux.sync.min"]
    pub fn redux_min_signed(value: i32, mask: u32) -> i32;
    #[link_name = "llvm.nvvm.redux.sync.and"]
    pub fn redux_and(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    pub fn redux_or(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.xor"]
    pub fn redux_xor(value: u32, mask: u32) -> u32;
}
