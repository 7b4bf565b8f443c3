//! A block's shared memory: its bytes, its arrays, and which words have a value.

use std::cell::RefCell;
use std::ops::Range;

use super::fault::{Kind, Place, Raised};
use super::shadow::Shadow;

/// Maximum shared memory per block of any GPU to date (Hopper, Blackwell): 227 KiB.
pub const LIMIT: usize = 227 * 1024;

/// Maximum static shared memory per block: `ptxas` refuses kernels with more.
const STATIC_LIMIT: usize = 48 * 1024;

/// The unit of the shadow: the smallest element.
pub const WORD: u32 = 4;

struct Array {
    site: usize,
    name: &'static str,
    address: u32,
}

/// The shared memory of one block.
#[derive(Default)]
pub struct SharedMemory {
    bytes: Vec<u8>,
    /// Whether each word has a value.
    written: Vec<bool>,
    pub(crate) shadow: Shadow,
    /// Static arrays in the order of their addresses, all behind the dynamic shared memory.
    statics: Vec<Array>,
    /// Bytes before these arrays.
    dynamic: usize,
}

/// The static arrays of a launch: a kernel reserves memory for all, though not every block reaches each declaration.
#[derive(Default)]
pub struct Declared {
    sites: Vec<usize>,
    bytes: usize,
}

impl SharedMemory {
    /// Makes this the memory of a new block, which has no values.
    pub fn reset(&mut self, dynamic_bytes: u32) {
        self.bytes.clear();
        self.written.clear();
        self.shadow.reset();
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
        self.written.resize(end / WORD as usize, false);
    }

    /// The address of the static array declared at `site`. The first call reserves the memory.
    #[track_caller]
    pub fn static_array(&mut self, declared: &RefCell<Declared>, site: usize, name: &'static str, bytes: u32) -> u32 {
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
        raw.copy_from_slice(bytes);
        u64::from_le_bytes(raw)
    }

    #[inline]
    pub fn store(&mut self, address: u32, size: u32, raw: u64) {
        let target = &mut self.bytes[address as usize..(address + size) as usize];
        if let Ok(target) = <&mut [u8; 4]>::try_from(&mut *target) {
            *target = (raw as u32).to_le_bytes();
        } else {
            target.copy_from_slice(&raw.to_le_bytes());
        }
    }

    /// Whether an element has a value.
    #[inline]
    pub fn has_value(&self, address: u32, size: u32) -> bool {
        let Range { start, end } = words(address, size);
        self.written[start] && self.written[end - 1]
    }

    /// Notes that an element has a value.
    #[inline]
    pub fn set_written(&mut self, address: u32, size: u32) {
        let Range { start, end } = words(address, size);
        self.written[start] = true;
        self.written[end - 1] = true;
    }
}

/// The words of an element: one or two.
#[inline]
pub fn words(address: u32, size: u32) -> Range<usize> {
    (address / WORD) as usize..((address + size) / WORD) as usize
}
