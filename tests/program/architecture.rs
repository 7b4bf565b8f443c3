//! The permitted dependencies between modules, checked against every path in the sources. Cargo checks those between crates.
//!
//! Dependencies between the rooms of a crate, its first modules, have no cycles, as in `solve → cpu | device → backend → model`. In the crate of
//! the kernels, they point down between its folders too. Circles of files within a room are listed in `circles.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Item, ItemMod, ItemUse, UseTree};

/// Path of a module below its crate.
type Module = Vec<String>;

/// The source tree of a crate: the crate's name and its modules.
struct Source {
    name: &'static str,
    files: BTreeMap<Module, syn::File>,
}

/// A path in module `from` that names an item of the same crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    from: Module,
    path: Module,
}

impl Source {
    /// The modules in the folder `root`.
    fn read(name: &'static str, root: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
        let mut files = BTreeMap::new();
        for path in sources(&root) {
            let mut module: Module = path
                .strip_prefix(&root)
                .unwrap()
                .with_extension("")
                .iter()
                .map(|part| part.to_str().unwrap().to_owned())
                .collect();
            if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
                module.pop();
            }
            files.insert(module, syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap());
        }
        assert!(files.len() > 3, "no sources in {}", root.display());
        Self { name, files }
    }

    /// All uses of items of this crate.
    fn uses(&self) -> BTreeSet<Use> {
        let mut all = BTreeSet::new();
        for (module, file) in &self.files {
            let mut paths = Paths { files: &self.files, module: module.clone(), found: Vec::new() };
            paths.visit_file(file);
            all.extend(paths.found.into_iter().map(|path| Use { from: module.clone(), path: path[1..].to_vec() }));
        }
        all
    }

    /// The module that defines the item named by a path. Follows re-exports.
    fn home(&self, path: &[String]) -> Module {
        let module = (0..=path.len()).rev().map(|length| &path[..length]).find(|start| self.files.contains_key(*start));
        let Some(module) = module else { return Module::new() };
        let Some(name) = path.get(module.len()) else { return module.to_vec() };
        let mut exports = Exports { name, found: None };
        exports.visit_file(&self.files[module]);
        match exports.found {
            Some(target) => {
                let mut paths = Paths { files: &self.files, module: module.to_vec(), found: Vec::new() };
                paths.note(target);
                match paths.found.pop() {
                    Some(target) if target[0] == "crate" && target[1..] != *path => self.home(&target[1..]),
                    _ => module.to_vec(),
                }
            }
            None => module.to_vec(),
        }
    }
}

/// The files of Rust below a folder, without those in folders of tests.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // Tests of a crate have no restrictions.
            if path.file_name().is_none_or(|name| name != "tests") {
                all.extend(sources(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    all
}

/// Collects the paths in a module that begin with `crate`, `self`, `super` or a submodule, made absolute.
struct Paths<'f> {
    files: &'f BTreeMap<Module, syn::File>,
    module: Module,
    found: Vec<Module>,
}

impl Paths<'_> {
    fn is_submodule(&self, name: &str) -> bool {
        self.files.contains_key(&[&self.module[..], &[name.to_owned()]].concat())
    }

    fn note(&mut self, path: Module) {
        let up = path.iter().take_while(|part| *part == "super").count();
        let path = match path[0].as_str() {
            "self" => [&["crate".to_owned()], &self.module[..], &path[1..]].concat(),
            "super" => {
                [&["crate".to_owned()], &self.module[..self.module.len().saturating_sub(up)], &path[up..]].concat()
            }
            "crate" => path,
            name if self.is_submodule(name) => [&["crate".to_owned()], &self.module[..], &path[..]].concat(),
            // An item of another crate.
            _ => return,
        };
        if path.len() > 1 {
            self.found.push(path);
        }
    }

    fn note_tree(&mut self, start: &Module, tree: &UseTree) {
        let with = |name: &syn::Ident| [&start[..], &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.note_tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) if name.ident == "self" => self.note(start.clone()),
            UseTree::Name(name) => self.note(with(&name.ident)),
            UseTree::Rename(rename) => self.note(with(&rename.ident)),
            UseTree::Glob(_) => self.note(start.clone()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(start, tree)),
        }
    }
}

impl<'a> Visit<'a> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let before = self.found.len();
        self.note_tree(&Vec::new(), &item.tree);
        if !matches!(item.vis, syn::Visibility::Inherited) {
            // A re-export from a submodule is no use: those who name the item use the submodule.
            let found = self.found.split_off(before);
            self.found.extend(found.into_iter().filter(|path| !path[1..].starts_with(&self.module)));
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Module = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if parts.len() > 1 {
            self.note(parts);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        // An exported macro is at the crate's root, whichever module defines it.
        let path: Module = call.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.len() != 2 || path[0] != "crate" {
            visit::visit_macro(self, call);
        }
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        // Test modules have no restrictions.
        if !item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }
}

/// Finds the path that a module's `pub use` re-exports under `name`.
struct Exports<'n> {
    name: &'n str,
    found: Option<Module>,
}

impl Exports<'_> {
    fn look(&mut self, start: &Module, tree: &UseTree) {
        let with = |name: &syn::Ident| [&start[..], &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.look(&with(&path.ident), &path.tree),
            UseTree::Name(name) if name.ident == self.name => self.found = Some(with(&name.ident)),
            UseTree::Rename(rename) if rename.rename == self.name => self.found = Some(with(&rename.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.look(start, tree)),
            _ => {}
        }
    }
}

impl<'a> Visit<'a> for Exports<'_> {
    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if !matches!(item.vis, syn::Visibility::Inherited) {
            self.look(&Vec::new(), &item.tree);
            // `pub use child::Name` is relative to this module.
            if let Some(found) = &mut self.found
                && !["crate", "self", "super"].contains(&found[0].as_str())
            {
                found.insert(0, "self".to_owned());
            }
        }
    }
}

/// The crates whose modules are checked, and how many levels of modules count.
fn crates() -> [(Source, usize); 10] {
    [
        (Source::read("warpkov_kernels", "kernels/src"), 2),
        (Source::read("warpkov_common", "host/common"), 1),
        (Source::read("warpkov_runtime", "host/runtime"), 1),
        (Source::read("warpkov_mdp", "host/mdp"), 1),
        (Source::read("warpkov_pomdp", "host/pomdp"), 1),
        (Source::read("warpkov_hmm", "host/hmm"), 1),
        (Source::read("warpkov_bench", "host/bench"), 1),
        (Source::read("warpkov_verify", "host/verify"), 1),
        (Source::read("warpkov_cli", "host/cli"), 1),
        (Source::read("warpkov_capi", "host/capi"), 1),
    ]
}

/// The folders of the kernels use `primitives` and nothing else of each other.
#[test]
fn kernels_point_down() {
    let source = Source::read("warpkov_kernels", "kernels/src");
    let folders = ["primitives", "lessons", "mdp", "pomdp", "hmm"];
    let mut wrong = Vec::new();
    for Use { from, path } in source.uses() {
        let (user, used) = (from.first(), source.home(&path).first().cloned());
        let known = |name: &Option<String>| name.as_ref().is_some_and(|name| folders.contains(&name.as_str()));
        if known(&user.cloned()) && known(&used) && user != used.as_ref() && used.as_deref() != Some("primitives") {
            wrong.push(format!("{} uses {}", from.join("::"), path.join("::")));
        }
    }
    assert!(wrong.is_empty(), "forbidden dependencies:\n{}", wrong.join("\n"));
}

/// The verifier names models, formats and shared code, and nothing else of the crates of solvers: no method, certificate, kernel or graph
/// algorithm can be at fault on both sides.
#[test]
fn the_verifier_uses_models_only() {
    struct Foreign(BTreeSet<String>);

    impl Foreign {
        fn note(&mut self, path: &[String]) {
            let permitted = ["model", "io", "alpha", "belief", "sequences"];
            let solver = ["warpkov_mdp", "warpkov_pomdp", "warpkov_hmm"].contains(&path[0].as_str());
            let other =
                ["warpkov_runtime", "warpkov_device", "warpkov_kernels", "warpkov_cuda"].contains(&path[0].as_str());
            if other || solver && path.get(1).is_none_or(|room| !permitted.contains(&room.as_str())) {
                self.0.insert(path.join("::"));
            }
        }

        fn note_tree(&mut self, start: &[String], tree: &UseTree) {
            let with = |name: &syn::Ident| [start, &[name.to_string()]].concat();
            match tree {
                UseTree::Path(path) => self.note_tree(&with(&path.ident), &path.tree),
                UseTree::Name(name) => self.note(&with(&name.ident)),
                UseTree::Rename(name) => self.note(&with(&name.ident)),
                UseTree::Glob(_) => self.note(start),
                UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(start, tree)),
            }
        }
    }

    impl<'a> Visit<'a> for Foreign {
        fn visit_item_use(&mut self, item: &'a ItemUse) {
            self.note_tree(&[], &item.tree);
        }

        fn visit_path(&mut self, path: &'a syn::Path) {
            self.note(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
            visit::visit_path(self, path);
        }
    }

    let mut found = Foreign(BTreeSet::new());
    Source::read("warpkov_verify", "host/verify").files.values().for_each(|file| found.visit_file(file));
    assert!(found.0.is_empty(), "{:?}", found.0);
    found.note(&["warpkov_mdp".to_owned(), "certificate".to_owned()]);
    assert_eq!(found.0.len(), 1);
}

/// The kernels of a source file, also those that a macro defines: the name and the attribute of each.
fn kernels(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = source.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        if line.starts_with("#[kernel") || line.starts_with("#[::warpkov_device::device::kernel") {
            let mut attribute = line.to_owned();
            for line in lines.by_ref() {
                if let Some((_, name)) = line.split_once("fn ") {
                    found.push((name.split(['<', '(']).next().unwrap_or_default().to_owned(), attribute));
                    break;
                }
                attribute.push_str(line);
            }
        }
    }
    found
}

/// Every kernel says what its launcher checks.
#[test]
fn kernels_have_contracts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/src");
    let all = sources(&root).into_iter().flat_map(|path| kernels(&fs::read_to_string(path).unwrap()));
    let (with, without): (Vec<_>, Vec<_>) = all.partition(|(_, attribute)| {
        // The contract of a safe kernel follows from its parameters.
        attribute.contains("requires(") || attribute.contains("kernel(safe")
    });
    let without: Vec<_> = without.into_iter().map(|(name, _)| name).collect();
    assert!(without.is_empty(), "kernels without `requires(…)` or `safe`: {}", without.join(", "));
    assert!(with.len() > 100, "{} kernels", with.len());
    let safe = with.iter().filter(|(_, attribute)| attribute.contains("kernel(safe")).count();
    assert!(safe >= 50, "{safe} safe kernels");
    let counted = format!("{safe} of the {} kernels in `kernels/` are safe", with.len());
    let book = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("book/explanation/kernels.md")).unwrap();
    assert!(book.contains(&counted), "book/explanation/kernels.md does not say: {counted}");
    let bare = "#[kernel(T = [f32])]\npub fn f<T: Real>(x: Global<T>) {}\n/// #[kernel]\n#[kernel(requires(n >= 1))]\nfn g(n: u32) {}";
    assert_eq!(kernels(bare).iter().map(|(name, _)| &name[..]).collect::<Vec<_>>(), ["f", "g"]);
}

/// Dependencies between modules, each with an example.
type Dependencies = BTreeMap<(Module, Module), String>;

/// The dependencies between the modules of the first `levels` levels; in the room `backends`, each backend is such a
/// module. Items of a folder's own `mod.rs` belong to no module of its level. `None` for those between files.
fn dependencies(source: &Source, levels: Option<usize>) -> Dependencies {
    let top = |module: &[String]| {
        let room = usize::from(module.first().is_some_and(|first| first == "backends"));
        module[..levels.map_or(module.len(), |levels| module.len().min(levels + room))].to_vec()
    };
    let least = levels.unwrap_or(0);
    let mut all = BTreeMap::new();
    for Use { from, path } in source.uses() {
        let home = source.home(&path);
        let (user, used) = (top(&from), top(&home));
        if from.len() >= least && home.len() >= least && user != used {
            all.entry((user, used)).or_insert_with(|| format!("{} uses {}", from.join("::"), path.join("::")));
        }
    }
    all
}

/// The circles of dependencies: sets of modules, as large as possible, each of which depends on all others of its set, if by others.
fn circles<'d>(dependencies: &'d Dependencies) -> BTreeSet<BTreeSet<&'d Module>> {
    let mut next = BTreeMap::<&Module, Vec<&Module>>::new();
    dependencies.keys().for_each(|(from, to)| next.entry(from).or_default().push(to));
    let reached = |from: &Module| {
        let (mut found, mut open) = (BTreeSet::new(), next[from].clone());
        while let Some(module) = open.pop() {
            if found.insert(module) {
                open.extend(next.get(module).into_iter().flatten());
            }
        }
        found
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = next.keys().map(|&module| (module, reached(module))).collect();
    let circle = |(&module, reach): (&&'d Module, &BTreeSet<&'d Module>)| -> BTreeSet<&'d Module> {
        reach.iter().copied().filter(|other| reached.get(other).is_some_and(|back| back.contains(module))).collect()
    };
    reached.iter().map(circle).filter(|circle| !circle.is_empty()).collect()
}

/// Examples of the dependencies within a circle, a line each.
fn examples(dependencies: &Dependencies, circle: &BTreeSet<&Module>) -> String {
    let within = dependencies.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
    within.map(|(_, example)| format!("  {example}\n")).collect()
}

#[test]
fn modules_have_no_cyclic_dependencies() {
    for (source, levels) in crates() {
        let dependencies = dependencies(&source, Some(levels));
        assert!(dependencies.len() > 3 || source.name == "warpkov_bench", "{}: {}", source.name, dependencies.len());
        if let Some(circle) = circles(&dependencies).first() {
            panic!("{}: a cycle of dependencies:\n{}", source.name, examples(&dependencies, circle));
        }
    }
}

/// The circles of files are those of `circles.txt`, a line each. The list may only get shorter.
#[test]
fn circles_of_files_are_listed() {
    let listed: BTreeSet<&str> = include_str!("circles.txt").lines().collect();
    let mut found = BTreeMap::new();
    for (source, _) in crates() {
        let dependencies = dependencies(&source, None);
        for circle in circles(&dependencies) {
            let files =
                circle.iter().map(|module| if module.is_empty() { "lib".to_owned() } else { module.join("::") });
            let line = format!("{}: {}", source.name, Vec::from_iter(files).join(" "));
            found.insert(line, examples(&dependencies, &circle));
        }
    }
    let new: String = found
        .iter()
        .filter(|(line, _)| !listed.contains(&line[..]))
        .map(|(line, uses)| format!("{line}\n{uses}"))
        .collect();
    let gone: Vec<&str> = listed.into_iter().filter(|line| !found.contains_key(*line)).collect();
    assert!(new.is_empty() && gone.is_empty(), "new:\n{new}\ngone:\n{}", gone.join("\n"));
}

/// A type has a name of its own: those that occur in several modules of a crate are listed in `shared_names.txt`, with the number of
/// modules. A new type takes another name, or changes the list.
#[test]
fn names_of_types_occur_once() {
    let mut found = String::new();
    for (source, _) in crates() {
        let mut modules = BTreeMap::<String, BTreeSet<String>>::new();
        for (module, file) in &source.files {
            for item in &file.items {
                let name = match item {
                    Item::Struct(item) => &item.ident,
                    Item::Enum(item) => &item.ident,
                    Item::Trait(item) => &item.ident,
                    Item::Type(item) => &item.ident,
                    _ => continue,
                };
                modules.entry(name.to_string()).or_default().insert(module.join("::"));
            }
        }
        for (name, modules) in modules.iter().filter(|(_, modules)| modules.len() > 1) {
            found += &format!("{}: {name} in {} modules\n", source.name, modules.len());
        }
    }
    let listed = include_str!("shared_names.txt");
    let new: Vec<&str> = found.lines().filter(|line| !listed.lines().any(|known| known == *line)).collect();
    let gone: Vec<&str> = listed.lines().filter(|line| !found.lines().any(|known| known == *line)).collect();
    assert!(new.is_empty() && gone.is_empty(), "new:\n{}\ngone:\n{}", new.join("\n"), gone.join("\n"));
}

/// The functions of this test find a cycle in a small example.
#[test]
fn a_cycle_is_found() {
    let parse = |text: &str| syn::parse_str::<syn::File>(text).unwrap();
    let module = |text: &str| text.split("::").map(str::to_owned).collect::<Module>();
    let files = BTreeMap::from([
        (Module::new(), parse("pub mod a; pub mod b; pub mod c; pub mod d; pub use a::Thing;")),
        (module("a"), parse("pub struct Thing; use crate::b;")),
        (module("b"), parse("fn f() { let x = super::c::G; } use crate::Thing;")),
        (module("c"), parse("use super::b::f; pub struct G;")),
        (module("d"), parse("pub mod e; pub use e::{H, T}; fn g(h: e::H) {} pub struct I;")),
        (module("d::e"), parse("use super::I; pub use crate::a::Thing as T; pub struct H;")),
    ]);
    let source = Source { name: "warpkov", files };
    assert_eq!(source.home(&module("Thing")), module("a"));
    let uses = source.uses();
    let found = |from: &str, path: &str| uses.contains(&Use { from: module(from), path: module(path) });
    assert!(found("a", "b") && found("b", "c::G") && found("c", "b::f"), "{uses:?}");
    let (rooms, files) = (dependencies(&source, Some(1)), dependencies(&source, None));
    let lines = |circles: BTreeSet<BTreeSet<&Module>>| -> Vec<String> {
        circles
            .iter()
            .map(|circle| circle.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(" "))
            .collect()
    };
    assert_eq!(lines(circles(&rooms)), ["a b c"]);
    assert_eq!(lines(circles(&files)), ["a b c", "d d::e"]);
}
