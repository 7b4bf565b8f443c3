//! Small numbers for source locations, so that an access fits into 8 bytes.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::Location;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Site = &'static Location<'static>;

/// The locations of this process by number. Equal locations have one number, even if a compiler has made several.
static SITES: Mutex<Option<Sites>> = Mutex::new(None);

#[derive(Default)]
struct Sites {
    numbers: HashMap<Site, u32>,
    sites: Vec<Site>,
}

/// Entries of the cache, a power of two.
const CACHED: usize = 512;

thread_local! {
    /// Addresses of locations, and their numbers. An address determines its entry.
    static CACHE: [Cell<(usize, u32)>; CACHED] = const { [const { Cell::new((0, 0)) }; CACHED] };
}

/// The number of a location.
#[inline]
pub fn number(site: Site) -> u32 {
    let address = ptr::from_ref(site).addr();
    CACHE.with(|cache| {
        // Locations have 24 bytes and lie together in the program.
        let entry = &cache[(address / 8) % CACHED];
        let (known, number) = entry.get();
        if known == address {
            return number;
        }
        let number = look_up(site);
        entry.set((address, number));
        number
    })
}

/// The location of a number.
pub fn location(number: u32) -> Site {
    lock().get_or_insert_default().sites[number as usize]
}

#[cold]
fn look_up(site: Site) -> u32 {
    let mut guard = lock();
    let Sites { numbers, sites } = guard.get_or_insert_default();
    *numbers.entry(site).or_insert_with(|| {
        sites.push(site);
        sites.len() as u32 - 1
    })
}

fn lock() -> MutexGuard<'static, Option<Sites>> {
    SITES.lock().unwrap_or_else(PoisonError::into_inner)
}
