//! Two ranks exchange messages of the length that the other expects, and of other lengths; with `late`, rank 1 does not come to the end
//! of MPI in time. `scripts/test-mpi.sh` runs it and reads what the first rank prints.

use std::time::Duration;

use warpkov_runtime::comm::launch::Launch;
use warpkov_runtime::comm::{Communicator, Error, World, abort, finalize};

/// Bytes that the first rank expects.
const EXPECTED: usize = 8;

/// Rank 1 sends messages of these lengths one after the other, filled with their number from 1; rank 0 expects [`EXPECTED`]
/// bytes each, and waits for the last one first.
fn exchange(comm: &dyn Communicator, lengths: &[usize]) -> Result<Vec<Vec<u8>>, Error> {
    if comm.rank() == 1 {
        let message = |(number, &length): (u8, &usize)| (0, vec![number; length]);
        let sends = (1..).zip(lengths).map(message).collect();
        return comm.exchange(sends, &[])?.wait();
    }
    let pending: Vec<_> =
        lengths.iter().map(|_| comm.exchange(Vec::new(), &[(1, EXPECTED)])).collect::<Result<_, _>>()?;
    let mut found = Vec::new();
    for exchange in pending.into_iter().rev() {
        found.splice(0..0, exchange.wait()?);
    }
    Ok(found)
}

fn main() -> Result<(), Error> {
    let lengths: Vec<usize> = std::env::args().skip(1).map(|length| length.parse().unwrap_or_default()).collect();
    let late = std::env::args().nth(1).is_some_and(|word| word == "late");
    let limit = Duration::from_secs(if late { 3 } else { 20 });
    let world = World::join(Launch::of_environment().as_ref(), limit, |error| {
        println!("{error}");
        std::process::exit(3)
    })?;
    let comm = world.comm();
    if late {
        if comm.rank() == 1 {
            std::thread::sleep(Duration::from_secs(60));
        }
        return finalize().inspect_err(|error| {
            println!("{error}");
            abort(3);
        });
    }
    match exchange(comm, &lengths) {
        Ok(found) if comm.rank() == 0 => println!("{found:?}"),
        Ok(_) => {}
        Err(error) => println!("{error}"),
    }
    finalize()
}
