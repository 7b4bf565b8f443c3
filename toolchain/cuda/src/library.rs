//! NVIDIA's libraries, loaded at run time and never unloaded.
//!
//! A library is searched for in this order; the first file that has all its functions is used:
//! 1. the file that the library's environment variable names, and no other if the variable is set;
//! 2. its name, as the dynamic loader finds it;
//! 3. its folder in the packages of the Python environments `VIRTUAL_ENV` and `CONDA_PREFIX`, of the first `python3` in `PATH`,
//!    and of the user.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::driver::reason;

/// Where a library may be.
pub struct Search {
    /// The environment variable that names the library's file.
    pub variable: &'static str,
    /// The names of the library, the newest version first.
    pub names: &'static [&'static str],
    /// The library's folders in the packages of a Python environment.
    pub packages: &'static [&'static str],
}

impl Search {
    /// Loads the library. `variable` reads environment variables; `resolve` takes the library's functions, and the name by which it
    /// was opened. The library is never unloaded.
    ///
    /// # Errors
    /// The files tried, each with the reason.
    pub fn load<F>(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
        resolve: impl Fn(&Library, &Path) -> Result<F, String>,
    ) -> Result<F, String> {
        let named = variable(self.variable).map(PathBuf::from);
        let all = || self.names.iter().map(PathBuf::from).chain(self.candidates(variable)).collect();
        let mut tried = Vec::new();
        for file in named.map_or_else(all, |file| vec![file]) {
            // SAFETY: the initialisers of NVIDIA's libraries have no preconditions. The user vouches for a file that the variable
            // names, as for every file in the search paths of the dynamic loader.
            let found = unsafe { Library::new(&file) }.map_err(|error| reason(&error)).and_then(|library| {
                let found = resolve(&library, &file);
                // Its threads may run its code until the process ends.
                std::mem::forget(library);
                found
            });
            match found {
                Ok(functions) => return Ok(functions),
                Err(why) => tried.push(format!("{}: {why}", file.display())),
            }
        }
        Err(format!("tried {}", tried.join("; ")))
    }

    /// The existing files of the library in the packages of Python environments, in the order of the search. No process is
    /// started.
    fn candidates(&self, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> =
            ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(&variable).map(Into::into).collect();
        let path = variable("PATH").unwrap_or_default();
        if let Some(python) =
            std::env::split_paths(&path).map(|bin| bin.join("python3")).find(|python| python.is_file())
        {
            // An environment's interpreter may be a link to that of the installation, which has packages of its own.
            for python in [Some(python.clone()), fs::canonicalize(python).ok()].into_iter().flatten() {
                roots.extend(python.ancestors().nth(2).map(Path::to_owned));
            }
        }
        if let Some(home) = variable("HOME") {
            roots.push(Path::new(&home).join(".local"));
        }
        let mut found = Vec::new();
        for lib in roots.iter().flat_map(|root| ["lib", "lib64", "local/lib"].map(|lib| root.join(lib))) {
            for python in pythons(&lib) {
                for packages in ["site-packages", "dist-packages"].map(|packages| python.join(packages)) {
                    let folders = self.packages.iter().map(|folder| packages.join(folder));
                    let files = folders.flat_map(|folder| self.names.iter().map(move |name| folder.join(name)));
                    for file in files.filter(|file| file.is_file()) {
                        if !found.contains(&file) {
                            found.push(file);
                        }
                    }
                }
            }
        }
        found
    }
}

/// The folders `python3*` in `lib`, the newest version first.
fn pythons(lib: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(lib)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let minor = name.strip_prefix("python3")?.trim_start_matches('.');
            Some((minor.parse().unwrap_or_default(), entry.path()))
        })
        .collect();
    versions.sort_by(|one, other| other.cmp(one));
    versions.into_iter().map(|(_, path)| path).collect()
}

/// The file whose mapping in this process contains `address`.
pub fn mapped(address: usize) -> Option<PathBuf> {
    fs::read_to_string("/proc/self/maps").ok()?.lines().find_map(|line| {
        // "start-end permissions offset device inode   path", addresses in hexadecimal.
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).ok());
        (start?..end?).contains(&address).then(|| rest.find('/').map(|at| PathBuf::from(&rest[at..])))?
    })
}

/// Declares a struct of the functions of a library: `field = symbol(types) -> type`. Its `resolve` takes them from the library, or
/// says which one the library lacks. The types must be the prototypes that the library's header declares.
macro_rules! functions {
    (
        $(#[$attribute:meta])* $name:ident of $what:literal:
        $($(#[$doc:meta])* $field:ident = $symbol:ident($($arg:ty),*) -> $result:ty;)*
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($arg),*) -> $result,)*
        }

        impl $name {
            /// The functions of `library`, which is never unloaded.
            fn resolve(library: &::libloading::Library) -> Result<Self, String> {
                Ok(Self {
                    $(
                        // SAFETY: the type is the prototype that the library's header declares for this symbol, with
                        // enumerations as integers of their size and handles as pointers. The library is never unloaded.
                        $field: *unsafe { library.get(stringify!($symbol)) }.map_err(|_| {
                            format!("it lacks {}: it is not {}, or too old", stringify!($symbol), $what)
                        })?,
                    )*
                })
            }
        }
    };
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search {
        variable: "WARPKOV_LIBRARY",
        names: &["libnothing.so.13", "libnothing.so.12"],
        packages: &["nvidia/cu13/lib", "nvidia/nothing/lib"],
    };

    fn load(variable: impl Fn(&str) -> Option<OsString>) -> Result<(), String> {
        SEARCH.load(variable, |_, _| Ok(()))
    }

    /// An environment with these variables.
    fn environment<'a>(variables: &'a [(&str, &Path)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |asked| variables.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into())
    }

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "no library").unwrap();
    }

    #[test]
    fn the_named_file_is_the_only_one_tried() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.so");
        let named: [(&str, &Path); 2] = [(SEARCH.variable, &missing), ("VIRTUAL_ENV", folder.path())];
        let why = load(environment(&named)).err().unwrap();
        assert!(why.starts_with(&format!("tried {}: ", missing.display())), "{why}");
        assert!(!why.contains(SEARCH.names[0]) && !why.contains(';'), "{why}");

        let wrong = folder.path().join("wrong.so");
        touch(&wrong);
        let why = load(environment(&[(SEARCH.variable, &wrong)])).err().unwrap();
        assert!(why.contains("wrong.so: "), "{why}");
    }

    #[test]
    fn python_environments_are_searched_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = |name: &str| folder.path().join(name);
        let library = |packages: &str| root(packages).join(SEARCH.packages[1]).join(SEARCH.names[0]);
        let older = |packages: &str| root(packages).join(SEARCH.packages[1]).join(SEARCH.names[1]);
        let newer = |packages: &str| root(packages).join(SEARCH.packages[0]).join(SEARCH.names[1]);
        let expected = [
            newer("venv/lib/python3.12/site-packages"),
            library("venv/lib/python3.12/site-packages"),
            older("venv/lib/python3.12/site-packages"),
            library("venv/lib/python3.9/site-packages"),
            library("conda/lib/python3.11/site-packages"),
            library("usr/lib64/python3.12/site-packages"),
            library("usr/local/lib/python3.12/dist-packages"),
            library("home/.local/lib/python3.12/site-packages"),
        ];
        expected.iter().for_each(|file| touch(file));
        touch(&library("other/lib/python3.12/site-packages"));
        touch(&library("usr/lib/python2.7/site-packages"));
        for bin in ["usr/bin", "other/bin"] {
            touch(&root(bin).join("python3"));
        }
        let path = std::env::join_paths([root("empty"), root("usr/bin"), root("other/bin")]).unwrap();
        let (venv, conda, home) = (root("venv"), root("conda"), root("home"));
        let variables =
            [("VIRTUAL_ENV", &*venv), ("CONDA_PREFIX", &*conda), ("PATH", Path::new(&path)), ("HOME", &*home)];
        assert_eq!(SEARCH.candidates(environment(&variables)), expected);
        assert_eq!(SEARCH.candidates(environment(&[])), <[PathBuf; 0]>::default());

        // The message names every file tried, in this order.
        let why = load(environment(&variables)).err().unwrap();
        let at: Vec<usize> = expected.iter().map(|file| why.find(&*file.to_string_lossy()).unwrap()).collect();
        assert!(why.starts_with("tried libnothing.so.13: ") && at.is_sorted(), "{why}");
    }

    #[test]
    fn the_file_of_a_function_is_known() {
        let own = std::env::current_exe().and_then(fs::canonicalize).unwrap();
        assert_eq!(mapped(touch as fn(&Path) as usize), Some(own));
        assert_eq!(mapped(1), None);
    }
}
