//! Looks at the PTX for what would fail, or hang, only on a GPU.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, ExprPath, Ident, Item, ItemFn, Lit, Token, bracketed};

use crate::divergence;
use crate::ptx::Module;

/// Every fault found in a module: nothing where it is fit to run.
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
        faults.push(format!("it is PTX {}, not {version}: this compiler does not write that version", module.version));
    }
    if module.target != target {
        faults.push(format!("it is for {}, not {target}", module.target));
    }
    calls(text, &mut faults);
    shared_symbols(text, &mut faults);

    let found: BTreeSet<_> = module.entries.iter().map(|entry| entry.name.to_owned()).collect();
    faults.extend(expected.difference(&found).map(|name| format!("the kernel {name} is declared, but not there")));
    faults.extend(found.difference(expected).map(|name| format!("the entry {name} is no kernel of the sources")));
    faults.extend(module.shared_variables().into_iter().map(|(name, [one, other])| {
        format!("the kernels {one} and {other} share the variable {name}, and each kernel is a module with its own")
    }));
    faults.extend(module.entries.iter().flat_map(divergence::duplicated_barriers));
    faults
}

/// The driver refuses a module that calls what it does not hold, and a kernel has nobody to panic to.
fn calls(text: &str, faults: &mut Vec<String>) {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    while let Some((number, line)) = lines.next() {
        if line.starts_with("//") {
            continue;
        }
        if line.contains(".extern .func") {
            faults.push(format!("line {number}: a function that is elsewhere: {line}"));
        }
        if !line.split_whitespace().any(|word| word == "call" || word.starts_with("call.")) {
            continue;
        }
        // A call may take several lines: up to the semicolon.
        let mut call = line.to_owned();
        while !call.contains(';') {
            let Some((_, more)) = lines.next() else { break };
            call.push_str(more);
        }
        if call.contains("panic") {
            faults.push(format!("line {number}: a kernel may panic here: {call}"));
        }
    }
}

/// Two arrays of one name would be one array.
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

/// The entries that the kernels' sources ask for, below `folder`.
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

/// The entries that the file at `path` asks for.
pub fn entries_in(path: &Path) -> Result<BTreeSet<String>, String> {
    let source = fs::read_to_string(path).map_err(|error| error.to_string());
    let entries = source.and_then(|source| entries_of(&source));
    entries.map(BTreeSet::from_iter).map_err(|error| format!("{}: {error}", path.display()))
}

/// The entries that one source file asks for.
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

/// `#[kernel(T = [f32, f64], LANES = [2, 4])] fn name` asks for `name_f32_2`, `name_f32_4`, `name_f64_2`, `name_f64_4`.
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

/// `#[kernel]`, whatever path leads to it.
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
        names.map(Self).ok_or_else(|| input.error("an instance of a kernel is a type, a whole number, true or false"))
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
