//! A block's shared memory: its bytes, its arrays, and which words have a value.

use std::cell::RefCell;
use std::ops::Range;
use std::panic::Location;

use super::clock::{Action, Clock, Stamp};
use super::fault::{Kind, Place, Raised};
use super::shadow::Shadow;

/// Maximum shared memory per block of any GPU to date (Hopper, Blackwell): 227 KiB.
pub const LIMIT: usize = 227 * 1024;

/// Maximum static shared memory per block: `ptxas` refuses kernels with more.
const STATIC_LIMIT: usize = 48 * 1024;

/// The unit of the shadow. Smaller elements have one of their own.
pub const WORD: u32 = 4;

/// A declaration, and the bytes of the array: instances of a generic function may have several arrays there.
pub type Site = (usize, u32);

struct Array {
    site: Site,
    name: &'static str,
    address: u32,
}

/// The shared memory of one block.
#[derive(Default)]
pub struct SharedMemory {
    bytes: Vec<u8>,
    /// Whether each byte has a value.
    written: Vec<bool>,
    /// Accesses to words.
    pub(crate) shadow: Shadow,
    /// Accesses to bytes by elements smaller than a word, and by others after the first such element.
    fine: Shadow,
    has_fine: bool,
    /// Static arrays in the order of their addresses, all behind the dynamic shared memory.
    statics: Vec<Array>,
    /// Bytes before these arrays.
    dynamic: usize,
}

/// The static arrays of a launch: a kernel reserves memory for all, though not every block reaches each declaration.
#[derive(Default)]
pub struct Declared {
    sites: Vec<Site>,
    bytes: usize,
}

impl SharedMemory {
    /// Makes this the memory of a new block, which has no values.
    pub fn reset(&mut self, dynamic_bytes: u32) {
        self.bytes.clear();
        self.written.clear();
        self.shadow.reset();
        if std::mem::take(&mut self.has_fine) {
            self.fine.reset();
        }
        self.statics.clear();
        self.grow(dynamic_bytes as usize);
        self.dynamic = self.bytes.len();
    }

    fn grow(&mut self, bytes: usize) {
        let end = (self.bytes.len() + bytes).next_multiple_of(16);
        if end > LIMIT {
            Raised::new(Kind::SharedExhausted { bytes: end, limit: LIMIT }, None).raise();
        }
        self.bytes.resize(end, 0);
        self.written.resize(end, false);
    }

    /// The address of the static array declared at `site`. The first call reserves the memory.
    #[track_caller]
    pub fn static_array(&mut self, declared: &RefCell<Declared>, site: usize, name: &'static str, bytes: u32) -> u32 {
        let site = (site, bytes);
        if let Some(array) = self.statics.iter().find(|array| array.site == site) {
            return array.address;
        }
        let mut declared = declared.borrow_mut();
        if !declared.sites.contains(&site) {
            declared.sites.push(site);
            declared.bytes += (bytes as usize).next_multiple_of(16);
            let bytes = declared.bytes;
            if bytes > STATIC_LIMIT {
                let hint = format!("`dynamic_shared_mem` and `Shape::with_shared` give a block up to {LIMIT} bytes");
                super::fault::raise_with(Kind::StaticSharedExhausted { bytes, limit: STATIC_LIMIT }, hint);
            }
            let all = self.dynamic + bytes;
            if all > LIMIT {
                super::fault::raise(Kind::SharedExhausted { bytes: all, limit: LIMIT });
            }
        }
        let address = self.bytes.len() as u32;
        self.grow(bytes as usize);
        self.statics.push(Array { site, name, address });
        address
    }

    /// The declaration, the name and the start of the static array that contains `address`; `None` in dynamic shared memory.
    pub fn array_at(&self, address: u32) -> Option<(Site, &'static str, u32)> {
        let array = self.statics.iter().rfind(|array| array.address <= address)?;
        Some((array.site, array.name, array.address))
    }

    /// Bytes in use.
    pub fn len(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// The array that contains the element of `size` bytes at `address`, and its index there.
    pub fn place(&self, address: u32, size: u32) -> Place {
        let array = self.statics.iter().rfind(|array| array.address <= address);
        let (array, start) = array.map_or(("dynamic_shared_mem", 0), |array| (array.name, array.address));
        Place { array, index: ((address - start) / size) as usize, shared: true }
    }

    #[inline]
    pub fn load(&self, address: u32, size: u32) -> u64 {
        let bytes = &self.bytes[address as usize..(address + size) as usize];
        if let &[a, b, c, d] = bytes {
            return u32::from_le_bytes([a, b, c, d]).into();
        }
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(raw)
    }

    #[inline]
    pub fn store(&mut self, address: u32, size: u32, raw: u64) {
        let target = &mut self.bytes[address as usize..(address + size) as usize];
        if let Ok(target) = <&mut [u8; 4]>::try_from(&mut *target) {
            *target = (raw as u32).to_le_bytes();
        } else {
            let size = target.len();
            target.copy_from_slice(&raw.to_le_bytes()[..size]);
        }
    }

    /// Whether an element has a value.
    #[inline]
    pub fn has_value(&self, address: u32, size: u32) -> bool {
        self.written[bytes(address, size)].iter().all(|&written| written)
    }

    /// Notes that an element has a value.
    #[inline]
    pub fn set_written(&mut self, address: u32, size: u32) {
        self.written[bytes(address, size)].fill(true);
    }

    /// Records an access to an element. Returns an earlier one that races with it.
    #[inline]
    pub(crate) fn touch(
        &mut self,
        address: u32,
        size: u32,
        action: Action,
        clock: &Clock,
        site: &'static Location<'static>,
    ) -> Result<(), Stamp> {
        if size < WORD {
            self.has_fine = true;
            self.shadow.check(words(address, size).start, action, clock, site)?;
        } else {
            words(address, size).try_for_each(|word| self.shadow.touch(word, action, clock, site))?;
        }
        if self.has_fine {
            bytes(address, size).try_for_each(|byte| self.fine.touch(byte, action, clock, site))?;
        }
        Ok(())
    }

    /// The last ordinary writes of a word, or of its bytes.
    pub(crate) fn writes(&self, word: usize) -> impl Iterator<Item = Stamp> {
        let first = word * WORD as usize;
        let bytes = if self.has_fine { first..first + WORD as usize } else { 0..0 };
        let of_bytes = bytes.flat_map(|byte| self.fine.changes(byte));
        self.shadow.changes(word).into_iter().chain(of_bytes).flatten()
    }

    /// The bytes of a range.
    pub fn bytes_at(&self, address: u32, size: u32) -> &[u8] {
        &self.bytes[bytes(address, size)]
    }

    /// Writes bytes.
    pub fn copy_in(&mut self, address: u32, source: &[u8]) {
        self.bytes[bytes(address, source.len() as u32)].copy_from_slice(source);
    }

    /// Ends the asynchronous copy by this thread to a word.
    pub(crate) fn end_copy(&mut self, word: usize, clock: &Clock) {
        self.shadow.end_copy(word, clock);
        if self.has_fine {
            let first = word * WORD as usize;
            (first..first + WORD as usize).for_each(|byte| self.fine.end_copy(byte, clock));
        }
    }
}

/// The bytes of an element.
#[inline]
fn bytes(address: u32, size: u32) -> Range<usize> {
    address as usize..(address + size) as usize
}

/// The words of an element: one or two.
#[inline]
pub fn words(address: u32, size: u32) -> Range<usize> {
    (address / WORD) as usize..(address + size).div_ceil(WORD) as usize
}
