//! The barriers in shared memory whose phases count arrivals and bytes.

use std::sync::Arc;

use super::bulk::Load;
use super::clock::{Knowledge, Stamp};

/// A barrier.
pub struct PhaseBarrier {
    /// Arrivals in each phase.
    pub arrivals: u32,
    /// The initialisation.
    pub init: Stamp,
    /// Phases that have ended.
    ended: u32,
    /// Arrivals in the phase that runs.
    arrived: u32,
    /// Bytes that it waits for.
    expected: u64,
    /// Copies whose bytes have not come. They come when a thread looks at the barrier, and all others have arrived.
    pub loads: Vec<Load>,
    /// What those know who have arrived: threads of the block, and those of others.
    arriving: [Knowledge; 2],
    /// What a thread learns that has waited for a phase: of threads of the block, and, if it waits for the cluster, of all.
    known: [Arc<Knowledge>; 2],
}

impl PhaseBarrier {
    pub fn new(arrivals: u32, init: Stamp) -> Self {
        Self {
            arrivals,
            init,
            ended: 0,
            arrived: 0,
            expected: 0,
            loads: Vec::new(),
            arriving: Default::default(),
            known: Default::default(),
        }
    }

    /// Arrives, from another block if `from_afar`, and announces bytes. Returns false if the phase has all its arrivals.
    pub fn arrive(&mut self, bytes: u32, known: &Knowledge, from_afar: bool) -> bool {
        if self.arrived == self.arrivals {
            return false;
        }
        self.arrived += 1;
        self.expected += u64::from(bytes);
        self.arriving[usize::from(from_afar)].join(known);
        if self.loads.is_empty() {
            self.end_if_complete();
        }
        true
    }

    /// Bytes of the copies that have not come.
    pub fn coming(&self) -> u64 {
        self.loads.iter().map(|load| u64::from(load.bytes)).sum()
    }

    /// Whether only bytes are missing, all of which copies can bring; or too many bytes are coming.
    pub fn can_end(&self) -> bool {
        self.arrived == self.arrivals && self.coming() >= self.expected
    }

    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Notes that the bytes of a copy have come.
    pub fn land(&mut self, load: &Load) {
        self.expected -= u64::from(load.bytes);
        self.arriving[0].add_block(load.engine.block);
    }

    /// Ends the phase if nothing is missing.
    pub fn end_if_complete(&mut self) {
        if self.arrived == self.arrivals && self.expected == 0 {
            let [own, others] = std::mem::take(&mut self.arriving);
            Arc::make_mut(&mut self.known[0]).join(&own);
            let all = Arc::make_mut(&mut self.known[1]);
            all.join(&own);
            all.join(&others);
            self.arrived = 0;
            self.ended += 1;
        }
    }

    /// The number, from 1, of the last phase of this parity that has begun; 0 for the one before the first.
    pub fn awaited(&self, parity: u32) -> u32 {
        self.ended + u32::from(self.ended % 2 == parity)
    }

    /// What a thread learns, if a phase has ended: of other blocks only if it waits for the cluster.
    pub fn over(&self, phase: u32, of_cluster: bool) -> Option<Arc<Knowledge>> {
        (phase <= self.ended).then(|| self.known[usize::from(of_cluster)].clone())
    }

    /// What the phase that runs waits for: "phase 2 has 1 of 3 arrivals, and 0 of 512 bytes are coming".
    pub fn describe(&self) -> String {
        let bytes = match (self.expected, self.coming()) {
            (0, 0) => String::new(),
            (expected, coming) => format!(", and of {expected} announced bytes {coming} are coming"),
        };
        format!("phase {} has {} of {} arrivals{bytes}", self.ended, self.arrived, self.arrivals)
    }
}
