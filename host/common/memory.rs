//! The memory of the process, as the system sees it.

use std::fs;

/// Makes large allocations return to the system as soon as they are freed, and grow without copies: glibc otherwise takes more
/// and more of them from its heap.
pub fn keep_tight() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const M_MMAP_THRESHOLD: i32 = -3;
        const BYTES: i32 = 128 << 10;
        // SAFETY: glibc permits calls of mallopt at any time; the threshold is within its range.
        unsafe { glibc::mallopt(M_MMAP_THRESHOLD, BYTES) };
    }
}

/// Returns freed memory to the system.
pub fn release() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim is safe for threads, and frees no memory in use.
    unsafe {
        glibc::malloc_trim(0)
    };
}

/// Bytes that this process can still take before the machine, its control group or `ulimit -v` refuses them. `None` if the system does not
/// tell, which Linux does.
#[must_use]
pub fn available() -> Option<u64> {
    let machine = kilobytes("/proc/meminfo", "MemAvailable:");
    let limit = fs::read_to_string("/proc/self/limits").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    let address_space = limit.zip(kilobytes("/proc/self/status", "VmSize:"));
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let group = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    let rest = [address_space, group].into_iter().flatten().map(|(limit, used)| limit.saturating_sub(used));
    rest.chain(machine).min()
}

/// The number of a line of a file, "MemAvailable:    123 kB", in bytes.
fn kilobytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    unsafe extern "C" {
        pub fn mallopt(parameter: i32, value: i32) -> i32;
        pub fn malloc_trim(pad: usize) -> i32;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_available() {
        let bytes = available().expect("Linux tells");
        assert!(bytes > 1 << 24 && bytes < 1 << 50, "{bytes}");
        assert!(kilobytes("/proc/meminfo", "MemTotal:").is_some_and(|total| total >= bytes));
        assert_eq!(kilobytes("/proc/meminfo", "NoSuchLine:"), None);
        assert_eq!(kilobytes("/no/such/file", "MemTotal:"), None);
    }
}
