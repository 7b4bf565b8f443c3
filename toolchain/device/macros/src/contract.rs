//! Contracts: requirements of the arguments and the shape, which the launcher checks before anything is launched.

use proc_macro2::{TokenStream as Tokens, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    BinOp, Error, Expr, ExprBinary, ExprIf, ExprMethodCall, ExprUnary, Ident, LitInt, Result, Stmt, Token, UnOp,
};

/// The requirements as a list in Markdown.
pub fn list(requirements: &[Requirement]) -> String {
    let lines = requirements.iter().map(|requirement| format!("- `{}`\n", requirement.text().replace("__self.", "")));
    lines.collect()
}

/// What is required, and the conditions under which it is.
pub struct Requirement {
    conditions: Vec<Expr>,
    required: Required,
}

enum Required {
    Comparison(ExprBinary),
    /// `model.holds(states)`: the contract of a struct for these numbers.
    Holds(ExprMethodCall),
}

/// The contract of a struct: `requires(…)`, or `holds(numbers), requires(…)`.
pub struct OfStruct {
    pub numbers: Option<Vec<Ident>>,
    pub requirements: Vec<Requirement>,
}

impl Parse for OfStruct {
    fn parse(input: ParseStream) -> Result<Self> {
        let (mut name, mut numbers): (Ident, _) = (input.parse()?, None);
        if name == "holds" {
            let content;
            syn::parenthesized!(content in input);
            numbers = Some(Punctuated::<Ident, Token![,]>::parse_terminated(&content)?.into_iter().collect());
            input.parse::<Token![,]>()?;
            name = input.parse()?;
        }
        if name != "requires" {
            return Err(Error::new(name.span(), "expected `requires(…)` or `holds(…), requires(…)`"));
        }
        Ok(Self { numbers, requirements: parse(input)? })
    }
}

/// The requirements in parentheses.
pub fn parse(input: ParseStream) -> Result<Vec<Requirement>> {
    let content;
    syn::parenthesized!(content in input);
    let mut found = Vec::new();
    for expr in Punctuated::<Expr, Token![,]>::parse_terminated(&content)? {
        collect(expr, &[], &mut found)?;
    }
    Ok(found)
}

/// Appends the comparisons of `expr`: a comparison, or `if condition { comparisons }`.
fn collect(expr: Expr, conditions: &[Expr], found: &mut Vec<Requirement>) -> Result<()> {
    let span = expr.span();
    match expr {
        Expr::Binary(comparison) if is_comparison(&comparison.op) => {
            found.push(Requirement { conditions: conditions.to_vec(), required: Required::Comparison(comparison) });
        }
        Expr::MethodCall(call) if call.method == "holds" => {
            found.push(Requirement { conditions: conditions.to_vec(), required: Required::Holds(call) });
        }
        Expr::If(ExprIf { cond, then_branch, else_branch: None, .. }) => {
            let conditions = [conditions, &[*cond]].concat();
            for statement in then_branch.stmts {
                match statement {
                    Stmt::Expr(expr, _) => collect(expr, &conditions, found)?,
                    other => return Err(Error::new(other.span(), EXPECTED)),
                }
            }
        }
        _ => return Err(Error::new(span, EXPECTED)),
    }
    Ok(())
}

const EXPECTED: &str =
    "a requirement is a comparison, as in `x.len() >= n`, or `if condition { x.len() >= n }`, or `model.holds(n)`";

impl Requirement {
    /// `shape.block == value`.
    pub fn block(value: &Expr) -> Self {
        let required = Required::Comparison(syn::parse_quote! { shape.block == #value });
        Self { conditions: Vec::new(), required }
    }

    /// `shape.block <= most`.
    pub fn block_at_most(most: &LitInt) -> Self {
        let required = Required::Comparison(syn::parse_quote! { shape.block <= #most });
        Self { conditions: Vec::new(), required }
    }

    /// As a person writes it: `x.len() >= n if STORE`.
    pub fn text(&self) -> String {
        let mut found = match &self.required {
            Required::Comparison(ExprBinary { left, op, right, .. }) => {
                format!("{} {} {}", text(left), op.to_token_stream(), text(right))
            }
            Required::Holds(call) => text_of_call(call),
        };
        for (at, condition) in self.conditions.iter().enumerate() {
            found += if at == 0 { " if " } else { " and " };
            found += &text(condition);
        }
        found
    }

    /// The statement that returns an error unless the requirement holds. `kernel` is an expression.
    pub fn check(&self, kernel: &Tokens) -> Result<Tokens> {
        let conditions = self.conditions.iter().map(condition).collect::<Result<Vec<_>>>()?;
        let required = match &self.required {
            Required::Comparison(comparison) => self.compare(comparison, kernel)?,
            Required::Holds(call) => {
                let (receiver, path) = (&call.receiver, text(&call.receiver));
                let numbers = call.args.iter().map(extent).collect::<Result<Vec<_>>>()?;
                quote! { #receiver.holds(#kernel, #(#numbers),*).map_err(|__unmet| __unmet.at(#path))?; }
            }
        };
        Ok(match conditions.is_empty() {
            true => quote! { { #required } },
            false => quote! { if #(#conditions)&&* { #required } },
        })
    }

    fn compare(&self, ExprBinary { left, op, right, .. }: &ExprBinary, kernel: &Tokens) -> Result<Tokens> {
        let (requirement, left_text, right_text) = (self.text(), text(left), text(right));
        let unless = quote! { ::warpkov_device::launch::Unmet::unless };
        // A resident grid has at most the blocks that the launch asks for.
        let [rises_left, rises_right] = [left, right].map(|side| counts_blocks(side) && !falls(side));
        let fixed = match op {
            BinOp::Ge(_) | BinOp::Gt(_) => counts_blocks(left) || counts_blocks(right) && !rises_right,
            BinOp::Le(_) | BinOp::Lt(_) => counts_blocks(right) || counts_blocks(left) && !rises_left,
            _ => counts_blocks(left) || counts_blocks(right),
        };
        let fixed = fixed.then(|| {
            quote! { #unless(!shape.resident, #kernel, [#requirement, "shape.resident", "0"], [1, 0])?; }
        });
        let (left, right) = (extent(left)?, extent(right)?);
        Ok(quote! {
            #fixed
            let (__left, __right) = (#left, #right);
            #unless(__left #op __right, #kernel, [#requirement, #left_text, #right_text], [__left.0, __right.0])?;
        })
    }
}

impl From<ExprBinary> for Requirement {
    fn from(comparison: ExprBinary) -> Self {
        Self { conditions: Vec::new(), required: Required::Comparison(comparison) }
    }
}

fn is_comparison(op: &BinOp) -> bool {
    matches!(op, BinOp::Ge(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Lt(_) | BinOp::Eq(_) | BinOp::Ne(_))
}

/// A condition as a `bool`: comparisons, and constants.
fn condition(expr: &Expr) -> Result<Tokens> {
    Ok(match expr {
        Expr::Binary(ExprBinary { left, op, right, .. }) if is_comparison(op) => {
            let (left, right) = (extent(left)?, extent(right)?);
            quote! { (#left #op #right) }
        }
        Expr::Binary(ExprBinary { left, op, right, .. }) if matches!(op, BinOp::And(_) | BinOp::Or(_)) => {
            let (left, right) = (condition(left)?, condition(right)?);
            quote! { (#left #op #right) }
        }
        Expr::Unary(ExprUnary { op: UnOp::Not(_), expr, .. }) => {
            let inner = condition(expr)?;
            quote! { !#inner }
        }
        Expr::Paren(inner) => condition(&inner.expr)?,
        Expr::Path(constant) => constant.to_token_stream(),
        other => return Err(Error::new(other.span(), "a condition has comparisons, constants, `&&`, `||` and `!`")),
    })
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
        Expr::Field(field) if is_of_shape(expr) => {
            match text(expr).as_str() {
                "shape.block" => of(quote! { shape.block.count() }),
                "shape.grid" => of(quote! { shape.grid.count() }),
                "shape.block.x" | "shape.block.y" | "shape.block.z" | "shape.grid.x" | "shape.grid.y"
                | "shape.grid.z" => of(field.to_token_stream()),
                "shape.threads" => quote! {
                    (::warpkov_device::launch::Extent::of(shape.grid.count())
                        * ::warpkov_device::launch::Extent::of(shape.block.count()))
                },
                "shape.shared" => of(quote! { shape.shared_bytes }),
                "shape.dimensions" => of(quote! { shape.dimensions() }),
                "shape.overlapping" => of(quote! { shape.overlapping }),
                _ => {
                    let why = "a shape has `block` and `grid` (and their `x`, `y`, `z`), `threads`, `shared` and `dimensions`";
                    return Err(Error::new(field.member.span(), why));
                }
            }
        }
        Expr::MethodCall(call)
            if ["len", "below", "rows", "columns"].iter().any(|known| call.method == known) && call.args.is_empty() =>
        {
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

/// Whether the number of all blocks is in the expression. The device chooses it for a resident grid.
fn counts_blocks(expr: &Expr) -> bool {
    match expr {
        Expr::Field(_) => matches!(text(expr).as_str(), "shape.grid" | "shape.grid.x" | "shape.threads"),
        Expr::Binary(ExprBinary { left, right, .. }) => counts_blocks(left) || counts_blocks(right),
        Expr::Paren(inner) => counts_blocks(&inner.expr),
        Expr::MethodCall(call) => counts_blocks(&call.receiver) || call.args.iter().any(counts_blocks),
        Expr::Call(call) => call.args.iter().any(counts_blocks),
        Expr::Cast(cast) => counts_blocks(&cast.expr),
        _ => false,
    }
}

/// Whether the expression may be smaller for more blocks.
fn falls(expr: &Expr) -> bool {
    match expr {
        Expr::Field(_) | Expr::Lit(_) | Expr::Path(_) => false,
        Expr::Binary(ExprBinary { left, op: BinOp::Add(_) | BinOp::Mul(_), right, .. }) => falls(left) || falls(right),
        Expr::Paren(inner) => falls(&inner.expr),
        _ => true,
    }
}

/// Whether the expression is a field of `shape`, or a field of one.
fn is_of_shape(expr: &Expr) -> bool {
    match expr {
        Expr::Field(field) => is_of_shape(&field.base),
        Expr::Path(path) => path.path.is_ident("shape"),
        _ => false,
    }
}

fn text_of_call(call: &ExprMethodCall) -> String {
    format!("{}.{}({})", text(&call.receiver), call.method, list_of(&call.args))
}

fn list_of(arguments: &Punctuated<Expr, Token![,]>) -> String {
    arguments.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The text of an expression, as a person writes it.
fn text(expr: &Expr) -> String {
    match expr {
        Expr::Binary(ExprBinary { left, op, right, .. }) => {
            format!("{} {} {}", text(left), op.to_token_stream(), text(right))
        }
        Expr::Paren(inner) => format!("({})", text(&inner.expr)),
        Expr::Unary(ExprUnary { op, expr, .. }) => format!("{}{}", op.to_token_stream(), text(expr)),
        Expr::Field(field) => format!("{}.{}", text(&field.base), field.member.to_token_stream()),
        Expr::MethodCall(call) => text_of_call(call),
        Expr::Call(call) => format!("{}({})", text(&call.func), list_of(&call.args)),
        Expr::Cast(cast) => format!("{} as {}", text(&cast.expr), cast.ty.to_token_stream()),
        // A reader needs no module's path.
        Expr::Path(path) if path.path.segments.len() > 2 => {
            path.path.segments.last().map(|last| last.to_token_stream().to_string()).unwrap_or_default()
        }
        other => other.to_token_stream().to_string().replace(' ', ""),
    }
}

/// The tokens with `__self.` before each of the names, unless they are fields of something else. `Unmet::at` gives the
/// place of the struct in the message.
pub fn of_struct(tokens: Tokens, names: &[&Ident]) -> Tokens {
    let mut after_point = false;
    let rooted = tokens.into_iter().map(|token| {
        let is_field = matches!(&token, TokenTree::Ident(ident) if !after_point && names.contains(&ident));
        after_point = matches!(&token, TokenTree::Punct(point) if point.as_char() == '.');
        match token {
            TokenTree::Group(group) => {
                let mut inner = proc_macro2::Group::new(group.delimiter(), of_struct(group.stream(), names));
                inner.set_span(group.span());
                TokenTree::Group(inner).into()
            }
            token if is_field => quote! { __self.#token },
            token => token.into(),
        }
    });
    rooted.collect()
}
