//! Audits PTX for faults that would otherwise appear on a GPU only, as a failed load, a wrong result or a hang.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, ExprPath, Ident, Item, ItemFn, Lit, Token, bracketed};

use crate::divergence;
use crate::ptx::Module;

/// The faults of a module for baseline `sm`, with the given PTX version and the `expected` entry points. Empty if there
/// are none.
pub fn faults(
    text: &str,
    module: &Module<'_>,
    sm: u32,
    (major, minor): (u32, u32),
    expected: &BTreeSet<String>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let (version, target) = (format!("{major}.{minor}"), format!("sm_{sm}"));
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
    faults.extend(expected.difference(&found).map(|name| format!("the PTX lacks the declared kernel {name}")));
    faults.extend(found.difference(expected).map(|name| format!("the sources declare no kernel for the entry {name}")));
    faults.extend(module.shared_variables().into_iter().map(|(name, [one, other])| {
        format!("the kernels {one} and {other} share the variable {name}, but each kernel becomes a module with its own copy")
    }));
    faults.extend(module.entries.iter().flat_map(divergence::duplicated_barriers));
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

/// The entry points that the sources below `folder` declare.
pub fn expected_entries(folder: &Path) -> Result<BTreeSet<String>, String> {
    let mut entries = BTreeSet::new();
    for item in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = item.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            entries.append(&mut expected_entries(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            entries.append(&mut entries_in(&path)?);
        }
    }
    Ok(entries)
}

/// The entry points that the file at `path` declares.
pub fn entries_in(path: &Path) -> Result<BTreeSet<String>, String> {
    let source = fs::read_to_string(path).map_err(|error| error.to_string());
    let entries = source.and_then(|source| entries_of(&source));
    entries.map(BTreeSet::from_iter).map_err(|error| format!("{}: {error}", path.display()))
}

/// The entry points that the text of a source file declares.
pub fn entries_of(source: &str) -> Result<Vec<String>, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    collect(&file.items, &mut entries).map_err(|error| error.to_string())?;
    Ok(entries)
}

fn collect(items: &[Item], entries: &mut Vec<String>) -> syn::Result<()> {
    for item in items {
        match item {
            Item::Fn(function) => entries.append(&mut instances(function)?),
            Item::Mod(module) => collect(module.content.as_ref().map_or(&[], |(_, items)| items), entries)?,
            _ => {}
        }
    }
    Ok(())
}

/// The entry points of a kernel: `name_f32_2`, `name_f32_4`, `name_f64_2` and `name_f64_4` for
/// `#[kernel(T = [f32, f64], LANES = [2, 4])] fn name`.
fn instances(function: &ItemFn) -> syn::Result<Vec<String>> {
    let Some(attribute) = function.attrs.iter().find(|attribute| is_kernel(attribute)) else {
        return Ok(Vec::new());
    };
    let mut names = vec![function.sig.ident.to_string()];
    if matches!(attribute.meta, syn::Meta::List(_)) {
        for List(values) in attribute.parse_args_with(Punctuated::<List, Token![,]>::parse_terminated)? {
            names = names.iter().flat_map(|name| values.iter().map(move |value| format!("{name}_{value}"))).collect();
        }
    }
    Ok(names)
}

/// Whether an attribute is `#[kernel]`, with or without a path.
fn is_kernel(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "kernel")
}

/// The values of one generic parameter: `T = [f32, f64]`.
struct List(Vec<String>);

impl Parse for List {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.parse::<Ident>()?;
        input.parse::<Token![=]>()?;
        let content;
        bracketed!(content in input);
        let values = Punctuated::<Expr, Token![,]>::parse_terminated(&content)?;
        let names = values.iter().map(value).collect::<Option<_>>();
        names
            .map(Self)
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
