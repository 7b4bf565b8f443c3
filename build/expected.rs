//! The entry points that the kernels' source declares.

use std::fs;
use std::path::Path;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Item, Token, bracketed};

/// The lists of `#[kernel(T = [f32, f64], LANES = [2, 4])]`, as text.
struct Instances(Vec<Vec<String>>);

impl Parse for Instances {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut lists = Vec::new();
        while !input.is_empty() {
            input.parse::<Ident>()?;
            input.parse::<Token![=]>()?;
            let values;
            bracketed!(values in input);
            let values = Punctuated::<Expr, Token![,]>::parse_terminated(&values)?;
            lists.push(values.iter().map(text).collect::<syn::Result<_>>()?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self(lists))
    }
}

/// `f32` or `4`.
fn text(value: &Expr) -> syn::Result<String> {
    match value {
        Expr::Path(path) if path.path.get_ident().is_some() => {
            Ok(path.path.get_ident().map(ToString::to_string).unwrap_or_default())
        }
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => Ok(number.base10_digits().to_owned()),
        other => Err(syn::Error::new_spanned(other, "an instance is a type's name or a number")),
    }
}

/// The names of all entry points declared under `folder`, sorted.
///
/// # Errors
/// A file that cannot be read or parsed.
pub fn entries(folder: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    visit(folder, &mut names)?;
    names.sort();
    Ok(names)
}

fn visit(folder: &Path, names: &mut Vec<String>) -> Result<(), String> {
    let in_folder = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(in_folder)? {
        let path = entry.map_err(in_folder)?.path();
        if path.is_dir() {
            visit(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            names.extend(declared(&source).map_err(|error| format!("{}: {error}", path.display()))?);
        }
    }
    Ok(())
}

/// The names of the entry points that a source file declares.
///
/// # Errors
/// Source that does not parse.
pub fn declared(source: &str) -> syn::Result<Vec<String>> {
    let mut names = Vec::new();
    for item in syn::parse_file(source)?.items {
        let Item::Fn(function) = item else { continue };
        for attribute in &function.attrs {
            if attribute.path().segments.last().is_none_or(|last| last.ident != "kernel") {
                continue;
            }
            let Instances(lists) = match &attribute.meta {
                syn::Meta::Path(_) => Instances(Vec::new()),
                _ => attribute.parse_args()?,
            };
            let mut instances = vec![function.sig.ident.to_string()];
            for values in lists {
                instances = instances
                    .iter()
                    .flat_map(|name| values.iter().map(move |value| format!("{name}_{value}")))
                    .collect();
            }
            names.append(&mut instances);
        }
    }
    Ok(names)
}
