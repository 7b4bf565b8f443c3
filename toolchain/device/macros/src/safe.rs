//! Safe kernels: what they must not contain, and the contract that follows from their parameters.

use proc_macro2::{Group, Span, TokenStream as Tokens, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Block, Error, Expr, ExprBinary, FnArg, GenericArgument, GenericParam, Generics, Ident, Lifetime, PathArguments,
    Result, Type, parse_quote, parse2,
};

use crate::contract::Requirement;

/// The contract of a safe kernel with these parameters: lengths by brand, whole warps, one dimension for elements in one dimension, and
/// no overlap with the launch before.
pub fn contract(parameters: &[(&Ident, &Type)]) -> Result<Vec<Requirement>> {
    let mut lengths: Vec<(&Lifetime, &Ident)> = Vec::new();
    let branded: Vec<_> = parameters.iter().map(|&(name, ty)| (name, brands(ty))).collect();
    for &(name, (view, ref brands)) in &branded {
        if let ([brand], true) = (brands.as_slice(), view.is_some_and(|view| view == "Len")) {
            if lengths.iter().any(|(known, _)| known == brand) {
                return Err(Error::new(
                    brand.span(),
                    format!("another parameter is `Len<{brand}>`: a lifetime stands for one length"),
                ));
            }
            lengths.push((brand, name));
        }
    }
    let length = |brand: &&Lifetime| match lengths.iter().find(|(known, _)| known == brand) {
        Some(&(_, name)) => Ok(name),
        None => Err(Error::new(brand.span(), format!("no parameter is `Len<{brand}>`"))),
    };
    let mut contract: Vec<ExprBinary> = Vec::new();
    let (mut one, mut two, mut of_shape) = (false, false, Vec::new());
    for ((name, (view, brands)), (_, ty)) in branded.into_iter().zip(parameters) {
        let brands = brands.iter().map(length).collect::<Result<Vec<_>>>()?;
        // An array of K numbers is one element.
        let numbers = |elements: Expr| -> Expr {
            match element(ty).and_then(|element| element.numbers) {
                Some(count) => parse_quote! { #count * #elements },
                None => elements,
            }
        };
        match (view.map(Ident::to_string).as_deref(), brands.as_slice()) {
            (Some("In" | "Out" | "Counters"), [n]) => {
                let least = numbers(parse_quote! { #n });
                contract.push(parse_quote! { #name.len() >= #least });
            }
            (Some("In2" | "Out2"), [rows, columns]) => {
                let least = numbers(parse_quote! { #rows * #columns });
                contract.push(parse_quote! { #name.len() >= #least });
            }
            (Some("Indices"), [n, below]) => {
                contract.push(parse_quote! { #name.len() >= #n });
                contract.push(parse_quote! { #name.below() <= #below });
            }
            (Some("SparseRows"), [rows, columns]) => {
                contract.push(parse_quote! { #name.rows() >= #rows });
                contract.push(parse_quote! { #name.columns() <= #columns });
            }
            (Some("PerBlock"), []) => {
                let least = numbers(parse_quote! { shape.grid });
                of_shape.push(parse_quote! { #name.len() >= #least });
            }
            (Some("PerThread"), []) => {
                let least = numbers(parse_quote! { shape.threads });
                of_shape.push(parse_quote! { #name.len() >= #least });
            }
            _ => {}
        }
        let of_blocks = element(ty).is_some_and(|element| element.mapped);
        one |= view.is_some_and(|view| view == "Out" || view == "PerBlock" || view == "Out2" && of_blocks);
        two |= view.is_some_and(|view| view == "Out2");
    }
    contract.push(parse_quote! { shape.block % 32 == 0 });
    if one {
        contract.push(parse_quote! { shape.dimensions == 1 });
    } else if two {
        contract.push(parse_quote! { shape.dimensions <= 2 });
    }
    contract.push(parse_quote! { shape.overlapping == 0 });
    Ok(contract.into_iter().chain(of_shape).map(Requirement::from).collect())
}

/// The elements of a view.
struct ElementOf<'a> {
    /// The type of the numbers.
    number: &'a Type,
    /// How many numbers an element has; `None` for one that is a number.
    numbers: Option<&'a Expr>,
    /// Whether the view names a mapping.
    mapped: bool,
}

/// The elements of a parameter that is a view of them.
fn element(ty: &Type) -> Option<ElementOf<'_>> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let of_items = ["In", "Out", "In2", "Out2", "Counters", "PerBlock", "PerThread"];
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    let (first, mapped) = (types.next()?, types.next().is_some());
    let (number, numbers) = match first {
        Type::Array(array) => (&*array.elem, Some(&array.len)),
        number => (number, None),
    };
    of_items.iter().any(|view| last.ident == view).then_some(ElementOf { number, numbers, mapped })
}

/// The types of the numbers in the parameters' elements. The contract counts the numbers of an array by its type as it is written, so
/// these must be numbers, and no other name of an array.
pub fn numbers<'a>(types: impl IntoIterator<Item = &'a Type>) -> Vec<&'a Type> {
    types.into_iter().filter_map(|ty| Some(element(ty)?.number)).collect()
}

/// Checks that no bound can make two lifetimes one: each stands for a length of its own.
pub fn check_lifetimes(generics: &Generics) -> Result<()> {
    let bounds = generics.params.iter().map(|parameter| match parameter {
        GenericParam::Lifetime(lifetime) => lifetime.bounds.to_token_stream(),
        GenericParam::Type(ty) => ty.bounds.to_token_stream(),
        GenericParam::Const(constant) => constant.ty.to_token_stream(),
    });
    let clause = generics.where_clause.to_token_stream();
    bounds.chain([clause]).try_for_each(|tokens| match lifetime_in(tokens) {
        Some(span) => Err(Error::new(span, "a lifetime stands for a length of its own: no bound may contain it")),
        None => Ok(()),
    })
}

/// The first lifetime among the tokens.
fn lifetime_in(tokens: Tokens) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Punct(mark) if mark.as_char() == '\'' => Some(mark.span()),
        TokenTree::Group(group) => lifetime_in(group.stream()),
        _ => None,
    })
}

/// The name of the argument of a safe kernel's body that has the places of its tiles. No name in the body is the same.
fn places() -> Ident {
    Ident::new("__places", Span::mixed_site())
}

/// That argument.
pub fn argument() -> FnArg {
    let places = places();
    parse_quote! { #places: ::warpkov_device::device::safe::Places }
}

/// A safe kernel's body, in which each `tile!` has a place of its own. Such a body has no other array in shared memory.
pub fn with_places(body: &Block) -> Result<Block> {
    let (mut count, places) = (0, places());
    let mut body: Block = parse2(place_tiles(body.to_token_stream(), &mut count)?)?;
    let takes = (0..count).map(|at| {
        let place = place(at);
        parse_quote! { let (#place, #places) = #places.take(); }
    });
    body.stmts.splice(0..0, takes);
    Ok(body)
}

fn place(at: usize) -> Ident {
    Ident::new(&format!("__place_{at}"), Span::mixed_site())
}

fn place_tiles(body: Tokens, count: &mut usize) -> Result<Tokens> {
    let mut placed: Vec<TokenTree> = Vec::new();
    for token in body {
        match token {
            TokenTree::Ident(name) if name == "shared_array" => {
                let why =
                    "threads may race in a `shared_array!`: a safe kernel uses `tile!` and the functions of `block`";
                return Err(Error::new(name.span(), why));
            }
            TokenTree::Group(group) => {
                let is_tile = match placed.as_slice() {
                    [.., TokenTree::Ident(name), TokenTree::Punct(mark)] => name == "tile" && mark.as_char() == '!',
                    _ => false,
                };
                let before = *count;
                let mut inside = place_tiles(group.stream(), count)?;
                if is_tile {
                    let place = place(*count);
                    *count += 1;
                    inside = quote! { @at #place, #inside };
                }
                // As it was: `stringify!` shows what is put together again with other spaces.
                if *count == before {
                    placed.push(group.into());
                    continue;
                }
                let mut with = Group::new(group.delimiter(), inside);
                with.set_span(group.span());
                placed.push(with.into());
            }
            token => placed.push(token),
        }
    }
    Ok(placed.into_iter().collect())
}

/// The name of a parameter's type, and its lifetimes.
fn brands(ty: &Type) -> (Option<&Ident>, Vec<&Lifetime>) {
    let Type::Path(path) = ty else { return (None, Vec::new()) };
    let Some(last) = path.path.segments.last() else { return (None, Vec::new()) };
    let lifetimes = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().filter_map(|argument| match argument {
            GenericArgument::Lifetime(lifetime) => Some(lifetime),
            _ => None,
        }),
        _ => return (Some(&last.ident), Vec::new()),
    };
    (Some(&last.ident), lifetimes.collect())
}
