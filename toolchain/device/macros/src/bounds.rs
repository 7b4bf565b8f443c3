//! Launch bounds: for how many threads per block, and blocks per multiprocessor, the assembler allots registers.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::parse::ParseStream;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitInt, Result, Token, parenthesized};

use crate::contract::Requirement;

/// Threads of a block, on every GPU.
const BLOCK: u32 = 1024;
/// Blocks of a multiprocessor, and their threads, on the GPUs that have most.
const RESIDENT: [u32; 2] = [32, 2048];

/// `bounds(threads = 256, blocks = 2)`.
pub struct Bounds {
    threads: LitInt,
    most: u32,
    blocks: Option<u32>,
}

impl Bounds {
    /// What follows `name` in the attribute.
    pub fn parse(input: ParseStream, name: &Ident, again: bool) -> Result<Self> {
        const EXPECTED: &str = "launch bounds are `bounds(threads = 256)` or `bounds(threads = 256, blocks = 2)`";
        if again {
            return Err(Error::new(name.span(), "the kernel has launch bounds already"));
        }
        let content;
        parenthesized!(content in input);
        let number = |expected: &str| {
            let name: Ident = content.parse().map_err(|error| Error::new(error.span(), EXPECTED))?;
            if name != expected {
                return Err(Error::new(name.span(), EXPECTED));
            }
            content.parse::<Token![=]>()?;
            content.parse::<LitInt>()
        };
        let threads = number("threads")?;
        let most = within(&threads, BLOCK, "a block has 1 to 1024 threads")?;
        let mut blocks = None;
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
        if !content.is_empty() {
            let literal = number("blocks")?;
            let count = within(&literal, RESIDENT[0], "a multiprocessor has 1 to 32 blocks")?;
            if count * most > RESIDENT[1] {
                return Err(Error::new(literal.span(), "a multiprocessor has at most 2048 threads"));
            }
            blocks = Some(count);
        }
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
        if !content.is_empty() {
            return Err(content.error(EXPECTED));
        }
        Ok(Self { threads, most, blocks })
    }

    /// `shape.block <= threads`: the driver refuses a larger block.
    pub fn requirement(&self) -> Requirement {
        Requirement::block_at_most(&self.threads)
    }

    /// An error if the kernel's `block = …` is a number of more threads: no launch would meet both.
    pub fn check_block(&self, block: &Expr) -> Result<()> {
        match block {
            Expr::Lit(ExprLit { lit: Lit::Int(block), .. }) if block.base10_parse::<u32>()? > self.most => {
                Err(Error::new(block.span(), format!("the launch bounds allow {} threads", self.most)))
            }
            _ => Ok(()),
        }
    }

    /// A statement of the entry point that states the bounds in a comment of its PTX. rustc has no attribute for them; `warpkov-build` makes
    /// directives of the comment.
    pub fn mark(&self) -> Tokens {
        let mut text = format!("// launch bounds: .maxntid {}", self.most);
        if let Some(blocks) = self.blocks {
            text += &format!(" .minnctapersm {blocks}");
        }
        quote! { ::core::arch::asm!(#text, options(nomem, nostack, preserves_flags)); }
    }
}

/// The value of a literal, from 1 to `most`.
fn within(literal: &LitInt, most: u32, why: &str) -> Result<u32> {
    let value = literal.base10_parse::<u64>()?;
    u32::try_from(value).ok().filter(|value| (1..=most).contains(value)).ok_or_else(|| Error::new(literal.span(), why))
}
