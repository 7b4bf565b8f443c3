//! Nothing but ranks uses a network. `deny.toml` bans the crates that could.

use std::fs;
use std::path::Path;

use super::architecture::sources;

/// The files that open sockets: the two by which ranks meet and watch each other, and the one that writes to a Unix socket that a user
/// names as an output.
const FILES: [&str; 3] = ["host/common/io/output.rs", "host/runtime/comm/lifeline.rs", "host/runtime/comm/meeting.rs"];

/// Whether code names a type, a module or a function of sockets.
fn opens_sockets(code: &str) -> bool {
    const WORDS: [&str; 9] = [
        "TcpListener",
        "TcpStream",
        "ToSocketAddrs",
        "UdpSocket",
        "UnixDatagram",
        "UnixListener",
        "UnixStream",
        "getaddrinfo",
        "socket",
    ];
    let code: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let words = code.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.clone().any(|word| WORDS.contains(&word)) || code.iter().any(|line| line.contains("::net::"))
}

#[test]
fn sockets_are_those_of_ranks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["host", "kernels", "python/src", "toolchain"] {
        for path in sources(&root.join(folder)) {
            let text = fs::read_to_string(&path).unwrap();
            if opens_sockets(text.split("#[cfg(test)]\nmod ").next().unwrap()) {
                found.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    assert_eq!(found, FILES);
}

#[test]
fn the_python_package_imports_no_network() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/warpkov");
    let folders = ["", "hmm", "mdp", "pomdp"].map(|folder| fs::read_dir(package.join(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "py")).collect();
    assert!(files.len() > 6, "{files:?}");
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| line.trim_start().starts_with("import ") || line.contains(" import ")) {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let network = ["asyncio", "http", "requests", "socket", "socketserver", "ssl", "urllib"];
            assert!(!words.any(|word| network.contains(&word)), "{}: {line}", path.display());
        }
    }
}
