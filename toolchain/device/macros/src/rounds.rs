//! The rounds of a kernel's loops, for the emulator: threads must reach a barrier in the same round.

use proc_macro2::Span;
use quote::quote_spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Item, Macro, parse_quote_spanned};

/// Makes the loops of a kernel that may contain a barrier count their rounds.
pub fn count(body: &Block) -> Block {
    let mut counted = body.clone();
    Counter::default().visit_block_mut(&mut counted);
    counted
}

#[derive(Default)]
struct Counter {
    /// Whether an expression visited so far may contain a barrier.
    barrier: bool,
}

impl VisitMut for Counter {
    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        match expression {
            Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => {
                let before = std::mem::take(&mut self.barrier);
                visit_mut::visit_expr_mut(self, expression);
                if self.barrier {
                    count_rounds(expression);
                }
                self.barrier |= before;
                return;
            }
            Expr::Call(call) => self.barrier |= may_wait(&call.func),
            Expr::MethodCall(call) => self.barrier |= is_barrier(&call.method.to_string()),
            _ => {}
        }
        visit_mut::visit_expr_mut(self, expression);
    }

    fn visit_macro_mut(&mut self, _: &mut Macro) {
        self.barrier = true;
    }

    // Functions and constants within the kernel: those do not run in its loops.
    fn visit_item_mut(&mut self, _: &mut Item) {}
}

/// Whether a call of the function may wait at a barrier. Most calls cannot: constructors, methods of types, and functions of
/// the device library.
fn may_wait(function: &Expr) -> bool {
    const NEVER: [&str; 13] =
        ["thread", "warp", "atomic", "copy", "grid", "math", "mma", "core", "std", "f32", "f64", "u32", "u64"];
    let Expr::Path(path) = function else { return true };
    let names: Vec<_> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let is_type = |name: &String| name.starts_with(char::is_uppercase);
    let never = names.iter().any(is_type) || names.len() > 1 && NEVER.contains(&names[0].as_str());
    !never || names.last().is_some_and(|name| is_barrier(name))
}

fn is_barrier(name: &str) -> bool {
    name.starts_with("sync_threads") || name.contains("barrier")
}

/// Puts a loop into a block with its counter.
fn count_rounds(expression: &mut Expr) {
    let (keyword, body) = match expression {
        Expr::ForLoop(each) => (each.for_token.span, &mut each.body),
        Expr::While(each) => (each.while_token.span, &mut each.body),
        Expr::Loop(each) => (each.loop_token.span, &mut each.body),
        _ => return,
    };
    // The name of the counter cannot clash with those of the kernel. Its loop is on the line of the keyword.
    let span = Span::mixed_site().located_at(keyword);
    let enter = quote_spanned! { keyword=> ::warpkov_device::emulator::thread::Loop::enter() };
    body.stmts.insert(0, parse_quote_spanned! { span=> __loop.begin_round(); });
    *expression = parse_quote_spanned! { span=> {
        let __loop = #enter;
        #expression
    } };
}
