//! A kernel's contract: requirements of the arguments and the shape, which the launcher checks before anything is launched.

use proc_macro2::{TokenStream as Tokens, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    BinOp, Error, Expr, ExprBinary, GenericArgument, Ident, Lifetime, PathArguments, Result, Token, Type, parse_quote,
};

/// A requirement: a comparison.
pub struct Requirement {
    comparison: ExprBinary,
    /// Whether the blocks of a resident grid count as those that the launch asks for, which are at least as many.
    resident: bool,
}

impl From<ExprBinary> for Requirement {
    fn from(comparison: ExprBinary) -> Self {
        Self { comparison, resident: false }
    }
}

impl Parse for Requirement {
    fn parse(input: ParseStream) -> Result<Self> {
        match input.parse()? {
            Expr::Binary(comparison) if is_comparison(&comparison.op) => Ok(comparison.into()),
            other => Err(Error::new(other.span(), "a requirement is a comparison, as in `x.len() >= n`")),
        }
    }
}

/// The requirements in parentheses.
pub fn parse(input: ParseStream) -> Result<Vec<Requirement>> {
    let content;
    syn::parenthesized!(content in input);
    Ok(Punctuated::<Requirement, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

impl Requirement {
    /// `shape.block == value`.
    pub fn block(value: &Expr) -> Self {
        Self { comparison: parse_quote! { shape.block == #value }, resident: false }
    }

    /// The statement that returns an error unless the requirement holds.
    pub fn check(&self, kernel: &str) -> Result<Tokens> {
        let ExprBinary { left, op, right, .. } = &self.comparison;
        let (requirement, sides) = (text(&self.comparison), [text(left), text(right)]);
        let ([left_text, right_text], left, right) = (sides, extent(left)?, extent(right)?);
        // The device chooses the blocks of a resident grid.
        let counts_blocks =
            !self.resident && ["shape.grid", "shape.threads"].iter().any(|extent| requirement.contains(extent));
        let fixed = counts_blocks.then(|| {
            quote! {
                if shape.resident {
                    return ::core::result::Result::Err(::core::convert::From::from(::warpkov_device::launch::Unmet {
                        kernel: #kernel,
                        requirement: #requirement,
                        sides: [("shape.resident", 1), ("0", 0)],
                    }));
                }
            }
        });
        Ok(quote! {{
            #fixed
            let (__left, __right) = (#left, #right);
            if !(__left #op __right) {
                return ::core::result::Result::Err(::core::convert::From::from(::warpkov_device::launch::Unmet {
                    kernel: #kernel,
                    requirement: #requirement,
                    sides: [(#left_text, __left.0), (#right_text, __right.0)],
                }));
            }
        }})
    }
}

/// The contract of a safe kernel with these parameters: lengths by brand, whole warps, one dimension for elements in one dimension, and
/// no overlap with the launch before.
pub fn of_safe(parameters: &[(&Ident, &Type)]) -> Result<Vec<Requirement>> {
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
    let (mut one, mut two, mut per_block) = (false, false, Vec::new());
    for (name, (view, brands)) in branded {
        let brands = brands.iter().map(length).collect::<Result<Vec<_>>>()?;
        match (view.map(Ident::to_string).as_deref(), brands.as_slice()) {
            (Some("In" | "Out" | "Counters"), [n]) => contract.push(parse_quote! { #name.len() >= #n }),
            (Some("In2" | "Out2"), [rows, columns]) => contract.push(parse_quote! { #name.len() >= #rows * #columns }),
            (Some("Indices"), [n, below]) => {
                contract.push(parse_quote! { #name.len() >= #n });
                contract.push(parse_quote! { #name.below() <= #below });
            }
            (Some("PerBlock"), []) => per_block.push(parse_quote! { #name.len() >= shape.grid }),
            _ => {}
        }
        one |= view.is_some_and(|view| view == "Out" || view == "PerBlock");
        two |= view.is_some_and(|view| view == "Out2");
    }
    contract.push(parse_quote! { shape.block % 32 == 0 });
    if one {
        contract.push(parse_quote! { shape.dimensions == 1 });
    } else if two {
        contract.push(parse_quote! { shape.dimensions <= 2 });
    }
    contract.push(parse_quote! { shape.overlapping == 0 });
    let per_block = per_block.into_iter().map(|comparison| Requirement { comparison, resident: true });
    Ok(contract.into_iter().map(Requirement::from).chain(per_block).collect())
}

/// Checks that a safe kernel's body has no array in shared memory of its own.
pub fn check_body(body: Tokens) -> Result<()> {
    for token in body {
        match token {
            TokenTree::Ident(name) if name == "shared_array" => {
                let why =
                    "threads may race in a `shared_array!`: a safe kernel uses `tile!` and the functions of `block`";
                return Err(Error::new(name.span(), why));
            }
            TokenTree::Group(group) => check_body(group.stream())?,
            _ => {}
        }
    }
    Ok(())
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

fn is_comparison(op: &BinOp) -> bool {
    matches!(op, BinOp::Ge(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Lt(_) | BinOp::Eq(_) | BinOp::Ne(_))
}

/// The expression as an `Extent`.
fn extent(expr: &Expr) -> Result<Tokens> {
    let of = |number: Tokens| quote! { ::warpkov_device::launch::Extent::of(#number) };
    Ok(match expr {
        Expr::Paren(inner) => {
            let inner = extent(&inner.expr)?;
            quote! { (#inner) }
        }
        Expr::Binary(ExprBinary { left, op, right, .. })
            if matches!(op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_)) =>
        {
            let (left, right) = (extent(left)?, extent(right)?);
            quote! { (#left #op #right) }
        }
        // A number without a type may exceed i32.
        Expr::Lit(literal) => {
            let literal = literal.to_token_stream();
            quote! { ::warpkov_device::launch::Extent(#literal) }
        }
        Expr::Field(field) if matches!(&*field.base, Expr::Path(base) if base.path.is_ident("shape")) => {
            let member = &field.member;
            match member.to_token_stream().to_string().as_str() {
                "block" => of(quote! { shape.block.count() }),
                "grid" => of(quote! { shape.grid.count() }),
                "threads" => quote! {
                    (::warpkov_device::launch::Extent::of(shape.grid.count())
                        * ::warpkov_device::launch::Extent::of(shape.block.count()))
                },
                "shared" => of(quote! { shape.shared_bytes }),
                "dimensions" => of(quote! { shape.dimensions() }),
                "overlapping" => of(quote! { shape.overlapping }),
                _ => {
                    let why = "a shape has `block`, `grid`, `threads`, `shared` and `dimensions`";
                    return Err(Error::new(member.span(), why));
                }
            }
        }
        Expr::MethodCall(call) if (call.method == "len" || call.method == "below") && call.args.is_empty() => {
            of(quote! { { #[allow(unused_imports)] use ::warpkov_device::launch::Buffer as _; #call } })
        }
        Expr::MethodCall(call) => {
            let (receiver, method) = (extent(&call.receiver)?, &call.method);
            let arguments = call.args.iter().map(extent).collect::<Result<Vec<_>>>()?;
            quote! { #receiver.#method(#(#arguments),*) }
        }
        Expr::Path(_) | Expr::Field(_) | Expr::Call(_) | Expr::Cast(_) => of(expr.to_token_stream()),
        other => return Err(Error::new(other.span(), "a contract has numbers, `+ - * / %`, and lengths of buffers")),
    })
}

/// The text of an expression, without the spaces that tokens have around points and parentheses.
fn text(expr: &impl ToTokens) -> String {
    let text = expr.to_token_stream().to_string();
    [(" . ", "."), (" :: ", "::"), (" (", "("), ("( ", "("), (" )", ")"), (" ,", ",")]
        .iter()
        .fold(text, |text, (from, to)| text.replace(from, to))
        // A parenthesis after an operator keeps its space.
        .replace("*(", "* (")
        .replace("+(", "+ (")
        .replace("-(", "- (")
        .replace("=(", "= (")
}
