//! A kernel's contract: requirements of the arguments and the shape, which the launcher checks before anything is launched.

use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{BinOp, Error, Expr, ExprBinary, Result, Token};

/// A requirement: a comparison.
pub struct Requirement(ExprBinary);

impl Parse for Requirement {
    fn parse(input: ParseStream) -> Result<Self> {
        match input.parse()? {
            Expr::Binary(comparison) if is_comparison(&comparison.op) => Ok(Self(comparison)),
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
        Self(syn::parse_quote! { shape.block == #value })
    }

    /// The statement that returns an error unless the requirement holds.
    pub fn check(&self, kernel: &str) -> Result<Tokens> {
        let ExprBinary { left, op, right, .. } = &self.0;
        let (requirement, sides) = (text(&self.0), [text(left), text(right)]);
        let ([left_text, right_text], left, right) = (sides, extent(left)?, extent(right)?);
        // The device chooses the blocks of a resident grid.
        let counts_blocks = ["shape.grid", "shape.threads"].iter().any(|extent| requirement.contains(extent));
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
                _ => {
                    let why = "a shape has `block`, `grid`, `threads`, `shared` and `dimensions`";
                    return Err(Error::new(member.span(), why));
                }
            }
        }
        Expr::MethodCall(call) if call.method == "len" && call.args.is_empty() => {
            let buffer = &call.receiver;
            of(quote! { ::warpkov_device::launch::Buffer::len(&*#buffer) })
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
