//! Audits PTX for faults that would otherwise appear on a GPU only, as a failed load, a wrong result or a hang.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Expr, ExprLit, ExprPath, Ident, Item, ItemFn, ItemMacro, ItemMod, Lit, Meta, Token, bracketed, parenthesized, token,
};

use crate::ptx::{Entry, Module};
use crate::{Baseline, divergence};

/// The faults of a module for a baseline, with the `expected` entry points. Empty if there are none.
pub fn faults(text: &str, module: &Module<'_>, baseline: &Baseline, expected: &Expected) -> Vec<String> {
    let (sm, (major, minor)) = (baseline.sm, baseline.ptx);
    let mut faults = Vec::new();
    let (version, target) = (format!("{major}.{minor}"), format!("sm_{}", baseline.name()));
    if module.version != version {
        faults.push(format!(
            "the PTX version is {}, not {version}: the compiler does not support {version}",
            module.version
        ));
    }
    if module.target != target {
        faults.push(format!("the target is {}, not {target}", module.target));
    }
    calls(text, &mut faults);
    shared_symbols(text, &mut faults);

    let found: BTreeSet<_> = module.entries.iter().map(|entry| entry.name.to_owned()).collect();
    let is_declared = |name: &&String| {
        expected.hopper_alone.contains(*name) == baseline.alone && (sm >= 90 || !expected.hopper.contains(*name))
    };
    let declared = expected.entries.iter().filter(is_declared).cloned();
    let declared: BTreeSet<_> = declared.collect();
    faults.extend(declared.difference(&found).map(|name| format!("the PTX lacks the declared kernel {name}")));
    if sm < 90 {
        faults.extend(module.entries.iter().filter_map(needs_hopper));
    }
    let unexpected = found.difference(&declared).filter(|name| !expected.is_of_macro(name));
    faults.extend(unexpected.map(|name| format!("the sources declare no kernel for the entry {name}")));
    faults.extend(module.shared_variables().into_iter().map(|(name, [one, other])| {
        format!("the kernels {one} and {other} share the variable {name}, but each kernel becomes a module with its own copy")
    }));
    faults.extend(module.entries.iter().flat_map(divergence::duplicated_barriers));
    let safe = module.entries.iter().filter(|entry| expected.safe.contains(entry.name));
    faults.extend(safe.flat_map(|entry| unsafe_in(module, entry)));
    faults
}

/// The first instruction of a kernel that GPUs before compute capability 9.0 lack.
fn needs_hopper(entry: &Entry<'_>) -> Option<String> {
    const PARTS: [&str; 6] =
        ["::cluster", "barrier.cluster", "%cluster", "mbarrier.try_wait", "cp.async.bulk", "fence.proxy"];
    let (line, text) = entry.body.iter().find(|(_, line)| PARTS.iter().any(|part| line.contains(part)))?;
    Some(format!("{}: line {line} needs compute capability 9.0, so write `#[kernel(sm = 90)]`: {text}", entry.name))
}

/// Finds what a safe kernel must not have, and the compiler does not refuse because a function that it calls has it.
fn unsafe_in(module: &Module<'_>, entry: &Entry<'_>) -> Vec<String> {
    let mut faults = divergence::collectives_apart(entry);
    let alone = module.alone(entry);
    let collectives =
        |lines: &mut dyn Iterator<Item = &str>| lines.filter(|line| divergence::is_collective(line.trim())).count();
    if collectives(&mut alone.lines()) > collectives(&mut entry.body.iter().map(|(_, line)| *line)) {
        faults.push(format!("{}: a function that is not inlined has a collective operation", entry.name));
    }
    // `block` and `tile!` name their arrays so. No array of a kernel begins like this: `$` is no part of a name in Rust.
    let own = alone.lines().filter_map(|line| {
        let name = line.contains(".shared").then(|| line.split_whitespace().last())??;
        line.trim_start().starts_with('.').then(|| name.split(['[', ';']).next().unwrap_or_default().to_owned())
    });
    let own = own.filter(|name| !name.is_empty() && !name.starts_with("$block_") && !name.starts_with("$tile_"));
    faults.extend(own.map(|name| format!("{}: threads may race in the shared array {name}: use `tile!`", entry.name)));
    faults
}

/// Finds undefined functions, with which the driver rejects the module, and calls of panics, which a kernel cannot
/// handle.
fn calls(text: &str, faults: &mut Vec<String>) {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    while let Some((number, line)) = lines.next() {
        if line.starts_with("//") {
            continue;
        }
        if line.contains(".extern .func") {
            faults.push(format!("line {number}: an undefined function: {line}"));
        }
        if !line.split_whitespace().any(|word| word == "call" || word.starts_with("call.")) {
            continue;
        }
        // A call may span several lines, up to the semicolon.
        let mut call = line.to_owned();
        while !call.contains(';') {
            let Some((_, more)) = lines.next() else { break };
            call.push_str(more);
        }
        if call.contains("panic") {
            faults.push(format!("line {number}: the kernel may panic: {call}"));
        }
    }
}

/// Finds shared arrays with the same name: they would be one array.
fn shared_symbols(text: &str, faults: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let words = || line.split_whitespace();
        if !line.trim_start().starts_with('.') || !words().take(3).any(|word| word == ".shared") {
            continue;
        }
        let name = words().last().unwrap_or_default().split(['[', ';']).next().unwrap_or_default();
        if !seen.insert(name) {
            faults.push(format!("line {}: the shared array {name} is declared twice", index + 1));
        }
    }
}

/// The entry points that sources declare.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// Their names.
    pub entries: BTreeSet<String>,
    /// Those of safe kernels.
    pub safe: BTreeSet<String>,
    /// Those of kernels with `sm = 90` or with clusters, which older baselines lack.
    pub hopper: BTreeSet<String>,
    /// Those of kernels with `sm = "90a"`, which have a baseline of their own.
    pub hopper_alone: BTreeSet<String>,
    /// Prefixes of names. A call of a macro with a type, `model!(DeMoor)`, may declare any kernels `de_moor_…`.
    pub prefixes: BTreeSet<String>,
}

impl Expected {
    /// Entry points with these names.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { entries: names.into_iter().map(str::to_owned).collect(), ..Self::default() }
    }

    /// Whether a macro may have declared this entry point.
    fn is_of_macro(&self, name: &str) -> bool {
        self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Adds those of other sources.
    pub fn append(&mut self, mut other: Self) {
        self.entries.append(&mut other.entries);
        self.safe.append(&mut other.safe);
        self.hopper.append(&mut other.hopper);
        self.hopper_alone.append(&mut other.hopper_alone);
        self.prefixes.append(&mut other.prefixes);
    }
}

/// The entry points that the sources below `folder` declare.
pub fn expected_entries(folder: &Path) -> Result<Expected, String> {
    let mut entries = Expected::default();
    for item in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = item.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            entries.append(expected_entries(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            entries.append(entries_in(&path)?);
        }
    }
    Ok(entries)
}

/// The entry points that the file at `path` declares.
pub fn entries_in(path: &Path) -> Result<Expected, String> {
    let source = fs::read_to_string(path).map_err(|error| error.to_string());
    let folder = path.parent().unwrap_or(Path::new(""));
    source.and_then(|source| entries_of(&source, folder)).map_err(|error| format!("{}: {error}", path.display()))
}

/// The entry points that the text of a source file in `folder` declares, with those of its modules that say `#[path = "…"]`.
pub fn entries_of(source: &str, folder: &Path) -> Result<Expected, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut entries = Expected::default();
    collect(&file.items, folder, &mut entries)?;
    Ok(entries)
}

/// The file that an attribute `#[path = "…"]` of a module names.
fn path_of(module: &ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

fn collect(items: &[Item], folder: &Path, entries: &mut Expected) -> Result<(), String> {
    for item in items {
        match item {
            Item::Fn(function) => {
                let Instances { names, safe, hopper, hopper_alone } =
                    instances(function).map_err(|error| error.to_string())?;
                entries.safe.extend(names.iter().filter(|_| safe).cloned());
                entries.hopper.extend(names.iter().filter(|_| hopper).cloned());
                entries.hopper_alone.extend(names.iter().filter(|_| hopper_alone).cloned());
                entries.entries.extend(names);
            }
            Item::Macro(call) => entries.prefixes.extend(type_of(call).map(|name| format!("{}_", snake_case(&name)))),
            Item::Mod(ItemMod { content: Some((_, items)), .. }) => collect(items, folder, entries)?,
            Item::Mod(module) => {
                if let Some(path) = path_of(module) {
                    entries.append(entries_in(&folder.join(path))?);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The entry points of a kernel: `name_f32_2`, `name_f32_4`, `name_f64_2` and `name_f64_4` for
/// `#[kernel(T = [f32, f64], LANES = [2, 4])] fn name`.
#[derive(Default)]
struct Instances {
    names: Vec<String>,
    /// Whether the kernel is safe.
    safe: bool,
    /// Whether it needs compute capability 9.0 or newer.
    hopper: bool,
    /// Whether it needs compute capability 9.0 and no other.
    hopper_alone: bool,
}

fn instances(function: &ItemFn) -> syn::Result<Instances> {
    let Some(attribute) = function.attrs.iter().find(|attribute| is_kernel(attribute)) else {
        return Ok(Instances::default());
    };
    let (mut safe, mut hopper, mut hopper_alone) = (false, false, false);
    let mut names = vec![function.sig.ident.to_string()];
    if matches!(attribute.meta, syn::Meta::List(_)) {
        let arguments = attribute.parse_args_with(Punctuated::<Argument, Token![,]>::parse_terminated)?;
        for argument in arguments {
            match argument {
                Argument::Values(values) => {
                    let with = |name: &String| values.iter().map(|value| format!("{name}_{value}")).collect::<Vec<_>>();
                    names = names.iter().flat_map(with).collect();
                }
                Argument::Safe => safe = true,
                Argument::Hopper => hopper = true,
                Argument::HopperAlone => hopper_alone = true,
                Argument::Contract => {}
            }
        }
    }
    Ok(Instances { names, safe, hopper, hopper_alone })
}

/// The type with which an item's macro is called, if its only argument is one.
fn type_of(call: &ItemMacro) -> Option<String> {
    let name = call.mac.parse_body::<Ident>().ok()?.to_string();
    name.starts_with(char::is_uppercase).then_some(name)
}

/// `DeMoor` as `de_moor`, as the macros of `warpkov-device` write it.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

/// Whether an attribute is `#[kernel]`, with or without a path.
fn is_kernel(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "kernel")
}

/// An argument of `#[kernel]`.
enum Argument {
    /// The values of one generic parameter: `T = [f32, f64]`.
    Values(Vec<String>),
    /// `requires(…)`, `bounds(…)` or `block = …`.
    Contract,
    /// `safe`.
    Safe,
    /// `sm = 90` or `cluster = …`.
    Hopper,
    /// `sm = "90a"`.
    HopperAlone,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse::<Ident>()?;
        if name == "safe" {
            return Ok(Self::Safe);
        }
        if input.peek(token::Paren) {
            let content;
            parenthesized!(content in input);
            Punctuated::<Expr, Token![,]>::parse_terminated(&content)?;
            return Ok(Self::Contract);
        }
        input.parse::<Token![=]>()?;
        if !input.peek(token::Bracket) {
            let value = input.parse::<Expr>()?;
            return Ok(match (name.to_string().as_str(), value) {
                ("sm", Expr::Lit(ExprLit { lit: Lit::Str(_), .. })) => Self::HopperAlone,
                ("sm" | "cluster", _) => Self::Hopper,
                _ => Self::Contract,
            });
        }
        let content;
        bracketed!(content in input);
        let values = Punctuated::<Expr, Token![,]>::parse_terminated(&content)?;
        let names = values.iter().map(value).collect::<Option<_>>();
        names
            .map(Self::Values)
            .ok_or_else(|| input.error("the values of a generic parameter are types, integers, true or false"))
    }
}

fn value(value: &Expr) -> Option<String> {
    match value {
        Expr::Path(ExprPath { path, .. }) => path.get_ident().map(Ident::to_string),
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => Some(number.to_string()),
        Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) => Some(flag.value.to_string()),
        _ => None,
    }
}
