//! The rounds of a kernel's loops, for the emulator: threads must reach a barrier in the same round, and a loop without
//! an end reaches the limit of steps.

use proc_macro2::Span;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprConst, ExprMethodCall, ExprRepeat, Item, Macro, Type, parse_quote, parse_quote_spanned};

/// Makes the loops of a kernel count their rounds: for the thread, if they may contain a barrier.
pub fn count(body: &Block) -> Block {
    let mut counted = body.clone();
    Counter::default().visit_block_mut(&mut counted);
    counted
}

#[derive(Default)]
struct Counter {
    /// Whether an expression visited so far may contain a barrier.
    barrier: bool,
    /// Whether an expression visited so far contains a loop.
    looped: bool,
}

impl VisitMut for Counter {
    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        match expression {
            Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => {
                let before = std::mem::take(self);
                visit_mut::visit_expr_mut(self, expression);
                count_rounds(expression, self.barrier, self.looped);
                self.barrier |= before.barrier;
                self.looped = true;
                return;
            }
            Expr::MethodCall(call) if is_for_each(call) => {
                let before = std::mem::take(&mut self.barrier);
                visit_mut::visit_expr_mut(self, expression);
                if self.barrier {
                    count_calls(expression);
                }
                self.barrier |= before;
                return;
            }
            Expr::Call(call) => self.barrier |= may_wait(&call.func),
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                self.barrier |= is_barrier(&name) || !has(METHODS, &name);
            }
            _ => {}
        }
        visit_mut::visit_expr_mut(self, expression);
    }

    fn visit_macro_mut(&mut self, _: &mut Macro) {
        self.barrier = true;
    }

    // Functions and constants within the kernel: those do not run in its loops.
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_expr_repeat_mut(&mut self, repeat: &mut ExprRepeat) {
        self.visit_expr_mut(&mut repeat.expr);
    }
}

/// The functions of the device library that wait at no barrier, by module.
const FUNCTIONS: [(&str, &str); 13] = [
    ("thread", "index_1d index_in_block block_size fence"),
    (
        "warp",
        "lane_id warp_id warp_role sync_warp shuffle shuffle_up shuffle_down shuffle_xor all any ballot match_any sum_u32 \
         max_u32 min_u32 reduce reduce_width inclusive_scan",
    ),
    ("atomic", "add max max_nonnegative load store compare_exchange"),
    ("copy", "commit wait"),
    ("grid", "wait launch_dependents"),
    ("cluster", "rank size map"),
    ("bulk", "load store commit wait_read wait fence"),
    ("mbarrier", "fence_init"),
    ("tensor", "swizzled"),
    ("wgmma", "commit"),
    ("math", "fma_f32 fma settled exp"),
    ("mma", "tf32_16x8x8 f16_16x8x16 f64_8x8x4 f64_16x8x8 tf32x3_16x8x8 tf32"),
    ("half", "from_f32 to_f32"),
];

/// Methods of the device library and of the standard library that wait at no barrier. The closures that they take are
/// expressions of the loop, too.
const METHODS: &str = "get get2 get4 get2_at get4_at rows index at cell column row element elements indices range unravel get_clamped chunk get_streaming set set4 peek mark skip copy copy16 copy_bits split cast len is_empty \
    load_matrices to_raw arrive_expecting try_wait aligned for_elements \
    abs min max clamp sqrt exp ln powi powf mul_add fma floor ceil round trunc recip signum is_nan is_finite is_infinite \
    to_bits to_f64 to_usize total_cmp wrapping_add wrapping_sub wrapping_mul wrapping_neg wrapping_shl wrapping_shr \
    checked_add checked_sub checked_mul saturating_add saturating_sub saturating_mul leading_zeros trailing_zeros \
    count_ones count_zeros rotate_left rotate_right reverse_bits swap_bytes div_ceil is_multiple_of is_power_of_two \
    next_power_of_two next_multiple_of abs_diff rem_euclid div_euclid pow ilog2 cast_signed cast_unsigned \
    iter iter_mut enumerate zip rev step_by take copied cloned into swap unwrap_or is_some is_none then_some contains";

/// Types whose functions wait at no barrier.
const PRIMITIVES: &str = "f32 f64 u8 u16 u32 u64 u128 usize i8 i16 i32 i64 isize bool char";

/// Whether a list has the name.
fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|one| one == name)
}

/// Whether a call of the function may wait at a barrier.
fn may_wait(function: &Expr) -> bool {
    let Expr::Path(path) = function else { return true };
    if path.qself.is_some() {
        return true;
    }
    let names: Vec<_> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let Some(name) = names.last() else { return true };
    let qualifier = names.len().checked_sub(2).map_or("", |index| names[index].as_str());
    let is_constructor = name.starts_with(char::is_uppercase);
    let is_index = qualifier == "thread"
        && ["thread_idx_", "block_idx_", "block_dim_", "grid_dim_"].iter().any(|prefix| name.starts_with(prefix));
    let is_known = FUNCTIONS.iter().any(|(module, names)| *module == qualifier && has(names, name));
    let is_std = names.len() > 1 && ["core", "std"].contains(&names[0].as_str()) || has(PRIMITIVES, qualifier);
    is_barrier(name) || !(is_constructor || is_index || is_known || is_std)
}

fn is_barrier(name: &str) -> bool {
    name.starts_with("sync") && name != "sync_warp" || name.contains("barrier")
}

/// Whether it is `iterator.for_each(|…| …)`, which is a loop.
fn is_for_each(call: &ExprMethodCall) -> bool {
    call.method == "for_each" && call.args.len() == 1 && matches!(call.args.first(), Some(Expr::Closure(_)))
}

/// Puts a loop into a block with its counter.
fn count_rounds(expression: &mut Expr, barrier: bool, outer: bool) {
    let (keyword, body) = match expression {
        Expr::ForLoop(each) => (each.for_token.span, &mut each.body),
        Expr::While(each) => (each.while_token.span, &mut each.body),
        Expr::Loop(each) => (each.loop_token.span, &mut each.body),
        _ => return,
    };
    let [mut enter, begin] = counter(keyword, barrier, outer);
    if body.stmts.is_empty() {
        let span = Span::mixed_site().located_at(keyword);
        enter.extend(quote_spanned! { span=> let __waiting = ::warpkov_device::emulator::thread::Waiting::enter(); });
    }
    body.stmts.insert(0, parse_quote!(#begin));
    *expression = parse_quote_spanned! { keyword=> { #enter #expression } };
}

/// Counts the calls of the closure of a `for_each` that may contain a barrier.
fn count_calls(expression: &mut Expr) {
    let Expr::MethodCall(call) = expression else { return };
    let keyword = call.method.span();
    let [enter, begin] = counter(keyword, true, false);
    let Some(Expr::Closure(closure)) = call.args.first_mut() else { return };
    let body = &closure.body;
    closure.body = parse_quote_spanned! { body.span()=> { #begin #body } };
    *expression = parse_quote_spanned! { keyword=> { #enter #expression } };
}

/// The statements before a loop and at the start of each round. The name of the counter cannot clash with those of the
/// kernel. Its loop is on the line of the keyword.
fn counter(keyword: Span, barrier: bool, outer: bool) -> [proc_macro2::TokenStream; 2] {
    let span = Span::mixed_site().located_at(keyword);
    // A round with loops in it takes longer.
    let weight = if outer { 16_u32 } else { 1 };
    let name = quote_spanned! { span=> __loop };
    let thread = quote_spanned! { keyword=> ::warpkov_device::emulator::thread };
    if barrier {
        let enter = quote_spanned! { keyword=> #thread::Loop::enter() };
        [quote_spanned! { span=> let #name = #enter; }, quote_spanned! { keyword=> #name.begin_round(#weight); }]
    } else {
        [
            quote_spanned! { span=> let mut #name = #thread::Rounds::default(); },
            quote_spanned! { keyword=> #name.begin_round(#weight); },
        ]
    }
}
