//! The house's arrows point down: who may use whom, read from every path in the sources.
//!
//! `cli → model class → runtime → common → kernels → toolchain`. No model class knows another, but for one: a partially observable
//! model is a Markov decision process whose state is hidden, so `pomdp` is built on `mdp`. Rooms, which are the modules of the second
//! level, do not use each other in circles: `solve → cpu | device → backend → model`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, UseTree};

/// A module's path.
type Module = Vec<String>;

/// One source tree: its name as a crate, and its modules.
struct Source {
    name: &'static str,
    files: BTreeMap<Module, syn::File>,
}

/// A use of what is in another module of the same crate or of another one of ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    from: Module,
    crate_name: String,
    path: Module,
}

impl Source {
    /// The modules under `root`, of which only those in `tops` are of this crate, if they are given.
    fn read(name: &'static str, root: &str, belongs: impl Fn(&str) -> bool) -> Self {
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
            if module.last().is_some_and(|last| last == "mod") {
                module.pop();
            }
            if module == ["lib"] || module == ["main"] || !belongs(&module[0]) {
                continue;
            }
            files.insert(module, syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap());
        }
        assert!(!files.is_empty(), "no sources in {}", root.display());
        Self { name, files }
    }

    /// What its modules use of this crate and of others; paths that begin with the crate's own name are of this one.
    fn uses(&self) -> BTreeSet<Use> {
        let mut all = BTreeSet::new();
        for (module, file) in &self.files {
            let mut paths = Paths { module: module.clone(), found: Vec::new() };
            paths.visit_file(file);
            for path in paths.found {
                let (first, rest) = path.split_first().unwrap();
                let crate_name = if first == "crate" { self.name } else { first };
                all.insert(Use { from: module.clone(), crate_name: crate_name.to_owned(), path: rest.to_vec() });
            }
        }
        all
    }

    /// Where what a path names is, re-exports followed: the module, and whether it is in a file of its own.
    fn home(&self, path: &[String]) -> Module {
        let module = (0..=path.len()).rev().map(|length| &path[..length]).find(|start| self.files.contains_key(*start));
        let Some(module) = module else { return path[..path.len().min(1)].to_vec() };
        let Some(name) = path.get(module.len()) else { return module.to_vec() };
        let mut exports = Exports { name, found: None };
        exports.visit_file(&self.files[module]);
        match exports.found {
            Some(target) => {
                let mut paths = Paths { module: module.to_vec(), found: Vec::new() };
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

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    all
}

/// All paths in a module that begin with `crate`, `self`, `super` or a crate of ours, as paths from `crate` on.
struct Paths {
    module: Module,
    found: Vec<Module>,
}

impl Paths {
    fn note(&mut self, path: Module) {
        let up = path.iter().take_while(|part| *part == "super").count();
        let path = match path[0].as_str() {
            "self" => [&["crate".to_owned()], &self.module[..], &path[1..]].concat(),
            "super" => {
                [&["crate".to_owned()], &self.module[..self.module.len().saturating_sub(up)], &path[up..]].concat()
            }
            // A child of this module.
            _ if path[0] != "crate" && !path[0].starts_with("warpkov") => return,
            _ => path,
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

impl<'a> Visit<'a> for Paths {
    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.note_tree(&Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Module = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if ["crate", "super", "self"].contains(&parts[0].as_str()) && parts.len() > 1 || parts[0].starts_with("warpkov")
        {
            self.note(parts);
        }
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        // Tests may use what they like.
        if !item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }
}

/// Where a `pub use` of a module takes a name from.
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
            // `pub use child::Name` begins at this module.
            if let Some(found) = &mut self.found
                && !["crate", "self", "super"].contains(&found[0].as_str())
                && !found[0].starts_with("warpkov")
            {
                found.insert(0, "self".to_owned());
            }
        }
    }
}

/// What the modules of the first level may use of each other.
fn allowed(crate_name: &str) -> Vec<(&'static str, &'static [&'static str])> {
    match crate_name {
        "warpkov" => vec![
            ("common", &[]),
            ("runtime", &["common"]),
            ("mdp", &["common", "runtime"]),
            ("pomdp", &["common", "runtime", "mdp"]),
            ("hmm", &["common", "runtime"]),
        ],
        "warpkov_kernels" => vec![
            ("primitives", &[]),
            ("lessons", &[]),
            ("mdp", &["primitives"]),
            ("pomdp", &["primitives"]),
            ("hmm", &["primitives"]),
        ],
        _ => Vec::new(),
    }
}

/// The toolchain's crates, the lowest first: below all others, and of use without them.
fn toolchain() -> [Source; 3] {
    [
        Source::read("warpkov_device", "toolchain/device/src", |_| true),
        Source::read("warpkov_build", "toolchain/build/src", |_| true),
        Source::read("warpkov_cuda", "toolchain/cuda/src", |_| true),
    ]
}

/// The crates above it, the lowest first.
fn house() -> [Source; 3] {
    let binary = |top: &str| top == "cli";
    [
        Source::read("warpkov_kernels", "kernels/src", |_| true),
        Source::read("warpkov", "host", move |top| !binary(top)),
        Source::read("warpkov_cli", "host", binary),
    ]
}

#[test]
fn arrows_point_down() {
    let house: Vec<Source> = toolchain().into_iter().chain(house()).collect();
    let mut wrong = Vec::new();
    for (level, source) in house.iter().enumerate() {
        let allowed = allowed(source.name);
        for Use { from, crate_name, path } in source.uses() {
            let target = house.iter().position(|source| source.name == crate_name);
            let up = match target {
                Some(target) if target == level => {
                    let home = source.home(&path);
                    let may = allowed.iter().find(|(top, _)| *top == from[0]).map(|(_, may)| *may);
                    // What is not listed is of no concern here.
                    home.first()
                        .is_some_and(|top| *top != from[0] && may.is_some_and(|may| !may.contains(&top.as_str())))
                }
                Some(target) => target > level,
                None => false,
            };
            if up {
                wrong.push(format!("{}::{} uses {crate_name}::{}", source.name, from.join("::"), path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "these point up:\n{}", wrong.join("\n"));
}

/// The arrows between rooms of a crate, and a use that makes each.
fn arrows(source: &Source) -> BTreeMap<(Module, Module), String> {
    let room = |module: &[String]| module[..module.len().min(2)].to_vec();
    let mut all = BTreeMap::new();
    for Use { from, crate_name, path } in source.uses() {
        let home = source.home(&path);
        // The list of a folder's rooms is in no room.
        if crate_name == source.name && from.len() > 1 && home.len() > 1 && room(&from) != room(&home) {
            all.entry((room(&from), room(&home)))
                .or_insert_with(|| format!("{} uses {}", from.join("::"), path.join("::")));
        }
    }
    all
}

/// A circle of arrows, if there is one.
fn circle(arrows: &BTreeMap<(Module, Module), String>) -> Option<Vec<Module>> {
    let mut left: BTreeSet<&Module> = arrows.keys().flat_map(|(from, to)| [from, to]).collect();
    loop {
        let free: Vec<&Module> = left
            .iter()
            .copied()
            .filter(|room| !arrows.keys().any(|(from, to)| from == *room && left.contains(to)))
            .collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|room| _ = left.remove(room));
    }
    // From any room that is left, arrows lead on for ever.
    let mut walk = vec![(*left.first()?).clone()];
    loop {
        let last = walk.last()?;
        let next = arrows.keys().find(|(from, to)| from == last && left.contains(to)).map(|(_, to)| to.clone())?;
        if let Some(start) = walk.iter().position(|room| *room == next) {
            return Some(walk.split_off(start));
        }
        walk.push(next);
    }
}

#[test]
fn rooms_do_not_use_each_other_in_circles() {
    for source in house() {
        let arrows = arrows(&source);
        assert!(arrows.len() > 3, "{}: {} arrows", source.name, arrows.len());
        if let Some(rooms) = circle(&arrows) {
            let next = rooms.iter().cycle().skip(1);
            let uses: Vec<&str> =
                rooms.iter().zip(next).map(|(a, b)| arrows[&(a.clone(), b.clone())].as_str()).collect();
            panic!("{}: a circle:\n{}", source.name, uses.join("\n"));
        }
    }
}

/// The test itself finds what it looks for.
#[test]
fn a_wrong_arrow_is_found() {
    let parse = |text: &str| syn::parse_str::<syn::File>(text).unwrap();
    let module = |text: &str| text.split("::").map(str::to_owned).collect::<Module>();
    let files = BTreeMap::from([
        (module("common"), parse("pub mod a; pub use a::Thing;")),
        (module("common::a"), parse("pub struct Thing; use crate::mdp::b;")),
        (module("mdp"), parse("pub mod b; pub mod c;")),
        (module("mdp::b"), parse("fn f() { let x = super::c::G; } use crate::common::Thing;")),
        (module("mdp::c"), parse("use super::b::f; pub struct G;")),
    ]);
    let source = Source { name: "warpkov", files };
    assert_eq!(source.home(&module("common::Thing")), module("common::a"));
    let uses = source.uses();
    let found = |from: &str, path: &str| {
        uses.contains(&Use { from: module(from), crate_name: "warpkov".to_owned(), path: module(path) })
    };
    assert!(found("common::a", "mdp::b") && found("mdp::b", "mdp::c::G") && found("mdp::c", "mdp::b::f"), "{uses:?}");
    let circle = circle(&arrows(&source)).unwrap();
    assert!(circle.len() == 2 || circle.len() == 3, "{circle:?}");
}
