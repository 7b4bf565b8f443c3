#![doc = include_str!("../README.md")]

mod bounds;
mod contract;
mod copy;
mod parameter;
mod rounds;
mod safe;

use proc_macro::TokenStream;
use proc_macro2::{Group, Span, TokenStream as Tokens, TokenTree};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    DeriveInput, Error, Expr, ExprBinary, FnArg, GenericParam, Ident, ItemFn, Lit, LitInt, Pat, Result, ReturnType,
    Signature, Token, Type, bracketed, parse_macro_input,
};

use bounds::Bounds;
use contract::Requirement;
use parameter::{Answer, Role, Shape, ShapesOf, Struct};

/// Declares a kernel: a free function without a return value.
///
/// A parameter is a scalar, a `Global<T>` (read only), a `GlobalMut<T>`, or a struct that derives `Parameter`. A kernel with a
/// `GridGroup`, for which a launch has no argument, is launched cooperatively: see [`grid`](../device/grid/index.html). The
/// attribute of a generic kernel lists the instances to compile: `#[kernel(T = [f32, f64], LANES = [2, 4])]` generates
/// the entry points `name_f32_2`, `name_f32_4`, `name_f64_2` and `name_f64_4`.
///
/// - For `nvptx64`, the function is unchanged, and each instance has an entry point with the PTX calling convention.
/// - For the host, the function's name is its typed launcher, `unsafe fn name(device, shape, …)`. Its arguments are the
///   scalars, `&D::Buffer<T>` for a `Global<T>`, `&mut D::Buffer<T>` for a `GlobalMut<T>`, and `NameArgs` for a struct
///   `Name`. The emulator counts the rounds of its loops.
///
/// `requires(x.len() >= n, shape.block % 32 == 0)` is the kernel's contract, and `block = 256` stands for `shape.block == 256`. The
/// launcher compares before anything is launched, and returns an [`Unmet`](../launch/struct.Unmet.html) requirement as an error. Both
/// sides consist of numbers, scalar parameters and fields, constants, `len()` of buffers, `+ - * / %`, `div_ceil`,
/// `next_multiple_of`, `next_power_of_two`, `max` and `min`, and calls of functions that return an integer, whose arguments are
/// Rust expressions.
/// `if condition { x.len() >= n; y.len() >= n }` requires something of some launches only; a condition has comparisons and constants.
///
/// `bounds(threads = 256, blocks = 2)` are launch bounds: the assembler gives a thread so few registers that two blocks of 256 threads are
/// resident on a multiprocessor at a time. `blocks` may be left out. The contract then has `shape.block <= 256`.
///
/// `cluster = 4` groups each four blocks in x to a cluster: see [`cluster`](../device/cluster/index.html). Such a kernel, and one with
/// `sm = 90`, is compiled for GPUs of compute capability 9.0 and newer only; one with `sm = "90a"` for 9.0 and no other. Its launch on
/// another GPU is an error.
///
/// `shape` has the threads of a `block` and of all blocks, `threads`; the blocks of the `grid`; both in one direction, as in
/// `grid.y`; the bytes of dynamic `shared` memory; and the number of `dimensions`. A resident grid, whose blocks the device counts,
/// meets no requirement of `grid`, `grid.x` or `threads`. Parameter structs have [contracts](derive@Parameter) of their own; a kernel
/// requires `model.holds(n)` of one that depends on its numbers.
///
/// A launch does not compile if the number or a type of its arguments is wrong, or if a buffer is both read and written
/// through two parameters.
///
/// ```
/// use warpkov_device::device::prelude::*;
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// #[kernel(T = [f32, f64], requires(x.len() >= n, y.len() >= n))]
/// fn axpy<T: Real>(n: u32, a: T, x: Global<T>, y: GlobalMut<T>) {
///     let i = thread::index_1d();
///     if i < u64::from(n) {
///         y.set(i, a.fma(x.get(i), y.get(i)));
///     }
/// }
///
/// let device = Emulator::default();
/// let (x, mut y) = (device.upload(&[1.0, 2.0])?, device.upload(&[0.5; 2])?);
/// // SAFETY: the launcher compares the lengths.
/// unsafe { axpy(&device, Shape::cover(2, 32), 2, 3.0, &x, &mut y)? };
/// assert_eq!(device.to_vec(&y)?, [3.5, 6.5]);
///
/// // SAFETY: as above.
/// let error = unsafe { axpy(&device, Shape::cover(3, 32), 3, 3.0, &x, &mut y) }.unwrap_err();
/// assert_eq!(error.to_string(), "kernel axpy cannot be launched: it requires x.len() >= n, and x.len() is 2, n is 3");
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
///
/// With launch bounds, which a block of 512 threads exceeds:
///
/// ```
/// use warpkov_device::device::prelude::*;
/// use warpkov_device::device::safe::PerThread;
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// #[kernel(safe, bounds(threads = 256, blocks = 2))]
/// fn indices(out: PerThread<u32>) {
///     out.set(thread::thread_idx_x());
/// }
///
/// let device = Emulator::default();
/// let mut out = device.zeros(512)?;
/// indices(&device, Shape::new(2, 256), &mut out)?;
/// let error = indices(&device, Shape::new(1, 512), &mut out).unwrap_err();
/// assert_eq!(error.to_string(), "kernel indices cannot be launched: it requires shape.block <= 256, and shape.block is 512");
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let tokens = Tokens::from(attribute.clone());
    let attribute = parse_macro_input!(attribute as Attribute);
    let function = parse_macro_input!(item as ItemFn);
    let expanded = Kernel::new(attribute, &function.sig).and_then(|kernel| {
        let mut function = function.clone();
        if kernel.safe {
            *function.block = safe::with_places(&function.block)?;
        }
        let (device, host) = (kernel.entries(tokens, Vec::new())?, kernel.host(&function)?);
        if kernel.safe {
            function.sig.inputs.push(safe::argument());
        }
        let forbid = kernel.safe.then(|| quote! { #[forbid(unsafe_code)] });
        Ok(quote! {
            #[cfg(target_arch = "nvptx64")]
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            #forbid
            #function
            #device
            #host
        })
    });
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Implements the trait of the same name for a struct, which is then a kernel parameter.
///
/// `#[parameter(requires(keys.len() >= 2 * sweep + 2))]` is the contract of the fields, in the words of [`macro@kernel`] but for
/// `shape`. The launcher of every kernel with such a parameter checks it, also where the struct is a field of another.
///
/// Numbers that the struct does not have come from the kernel: `#[parameter(holds(rows), requires(ptr.len() >= rows + 1))]` is
/// checked where a contract requires `matrix.holds(n)`.
///
/// ```
/// use warpkov_device::device::prelude::*;
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// #[derive(Clone, Copy, Parameter)]
/// #[parameter(requires(ptr.len() >= rows + 1))]
/// struct Csr {
///     rows: u32,
///     /// Row r has the entries `ptr[r]..ptr[r + 1]`.
///     ptr: Global<u32>,
/// }
///
/// /// The number of entries of each row.
/// #[kernel]
/// fn lengths(csr: Csr, out: GlobalMut<u32>) {
///     let r = thread::index_1d() as usize;
///     if r < csr.rows as usize {
///         out.set(r, csr.ptr.get(r + 1) - csr.ptr.get(r));
///     }
/// }
///
/// let device = Emulator::default();
/// let (ptr, mut out) = (device.upload(&[0, 2, 3])?, device.zeros(2)?);
/// // SAFETY: row pointers ascend, and `out` has an element per row.
/// unsafe { lengths(&device, Shape::cover(2, 32), CsrArgs { rows: 2, ptr: &ptr }, &mut out)? };
/// assert_eq!(device.to_vec(&out)?, [2, 1]);
///
/// // SAFETY: as above.
/// assert!(unsafe { lengths(&device, Shape::cover(2, 32), CsrArgs { rows: 3, ptr: &ptr }, &mut out) }.is_err());
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[proc_macro_derive(Parameter, attributes(parameter))]
pub fn parameter(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    parameter::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Implements the trait of the same name for a struct, which may then be an element of buffers: it has the layout `#[repr(C)]`, is `Copy`,
/// and consists of such elements without padding. Otherwise it does not compile.
///
/// ```
/// use warpkov_device::device::prelude::*;
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
///
/// #[derive(Clone, Copy, DeviceCopy)]
/// #[repr(C)]
/// struct Particle {
///     velocity: [f32; 3],
///     mass: f32,
/// }
///
/// #[kernel]
/// fn momentum(particles: Global<Particle>, out: GlobalMut<f32>) {
///     let i = thread::index_1d();
///     let Particle { velocity, mass } = particles.get(i);
///     out.set(i, mass * velocity[0]);
/// }
///
/// let device = Emulator::default();
/// let particles = device.upload(&[Particle { velocity: [3.0, 0.0, 4.0], mass: 2.0 }])?;
/// let mut out = device.zeros(1)?;
/// // SAFETY: both buffers have one element per thread.
/// unsafe { momentum(&device, Shape::new(1, 1), &particles, &mut out)? };
/// assert_eq!(device.to_vec(&out)?, [6.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[proc_macro_derive(DeviceCopy)]
pub fn device_copy(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    copy::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Defines the macro that answers queries for a struct's shape, from the shapes of its fields.
#[doc(hidden)]
#[proc_macro]
pub fn __shape(input: TokenStream) -> TokenStream {
    let Answer { asked, known } = parse_macro_input!(input as Answer<Struct>);
    parameter::shape_macro(&asked, known).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Defines a kernel's entry points, from the shapes of its parameters.
#[doc(hidden)]
#[proc_macro]
pub fn __entries(input: TokenStream) -> TokenStream {
    let Answer { asked: Declared { tokens, signature }, known } = parse_macro_input!(input as Answer<Declared>);
    let expanded =
        syn::parse2(tokens.clone()).and_then(|attribute| Kernel::new(attribute, &signature)?.entries(tokens, known));
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// For macros that define kernels for a type: `__with_prefix! { DeMoor … }` gives the tokens after the type, in which an
/// identifier `PREFIX_sweep` becomes `de_moor_sweep`.
#[doc(hidden)]
#[proc_macro]
pub fn __with_prefix(input: TokenStream) -> TokenStream {
    let mut tokens = Tokens::from(input).into_iter();
    match tokens.next() {
        Some(TokenTree::Ident(name)) => with_prefix(tokens.collect(), &snake_case(&name.to_string())).into(),
        _ => Error::new(Span::call_site(), "expected the name of a type").to_compile_error().into(),
    }
}

fn with_prefix(tokens: Tokens, prefix: &str) -> Tokens {
    let renamed = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(name) => match name.to_string().strip_prefix("PREFIX_") {
            Some(rest) => TokenTree::Ident(Ident::new(&format!("{prefix}_{rest}"), name.span())),
            None => TokenTree::Ident(name),
        },
        TokenTree::Group(group) => {
            let mut inner = Group::new(group.delimiter(), with_prefix(group.stream(), prefix));
            inner.set_span(group.span());
            TokenTree::Group(inner)
        }
        token => token,
    });
    renamed.collect()
}

/// `DeMoor` as `de_moor`. `warpkov-build` expects kernels of this prefix where a macro is called with the type's name.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

/// A kernel without its body: `[attribute's argument] signature`.
struct Declared {
    tokens: Tokens,
    signature: Signature,
}

impl Parse for Declared {
    fn parse(input: ParseStream) -> Result<Self> {
        let content;
        bracketed!(content in input);
        Ok(Self { tokens: content.parse()?, signature: input.parse()? })
    }
}

/// The attribute's arguments.
#[derive(Default)]
struct Attribute {
    /// Each generic parameter with its list of values.
    lists: Vec<(Ident, Vec<Expr>)>,
    contract: Vec<Requirement>,
    safe: bool,
    /// Blocks of a cluster.
    cluster: u32,
    /// The GPUs that run it.
    sm: Generation,
    bounds: Option<Bounds>,
}

/// The GPUs that run a kernel, by their compute capability.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Generation {
    /// All.
    #[default]
    Any,
    /// 9.0 and newer: `sm = 90`.
    Hopper,
    /// 9.0 alone: `sm = "90a"`.
    HopperAlone,
}

impl Parse for Attribute {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut attribute = Self { cluster: 1, ..Self::default() };
        let mut block = None;
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            match name.to_string().as_str() {
                "safe" => attribute.safe = true,
                "bounds" => {
                    let bounds = Bounds::parse(input, &name, attribute.bounds.is_some())?;
                    attribute.contract.push(bounds.requirement());
                    attribute.bounds = Some(bounds);
                }
                "requires" => attribute.contract.extend(contract::parse(input)?),
                "cluster" => {
                    input.parse::<Token![=]>()?;
                    let blocks: LitInt = input.parse()?;
                    attribute.cluster = blocks.base10_parse()?;
                    if !(2..=8).contains(&attribute.cluster) {
                        return Err(Error::new(blocks.span(), "a cluster has 2 to 8 blocks"));
                    }
                    if attribute.sm == Generation::Any {
                        attribute.sm = Generation::Hopper;
                    }
                    let whole: ExprBinary = syn::parse_quote! { shape.grid.x % #blocks == 0 };
                    attribute.contract.push(whole.into());
                }
                "sm" => {
                    input.parse::<Token![=]>()?;
                    let sm: Lit = input.parse()?;
                    attribute.sm = match &sm {
                        Lit::Int(sm) if sm.base10_digits() == "90" => Generation::Hopper,
                        Lit::Str(sm) if sm.value() == "90a" => Generation::HopperAlone,
                        _ => return Err(Error::new(sm.span(), "a kernel may need `sm = 90` or `sm = \"90a\"`")),
                    };
                }
                "block" => {
                    input.parse::<Token![=]>()?;
                    let threads = input.parse()?;
                    attribute.contract.push(Requirement::block(&threads));
                    block = Some(threads);
                }
                _ => {
                    input.parse::<Token![=]>()?;
                    let values;
                    bracketed!(values in input);
                    let values = Punctuated::<Expr, Token![,]>::parse_terminated(&values)?;
                    attribute.lists.push((name, values.into_iter().collect()));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if let (Some(bounds), Some(block)) = (&attribute.bounds, &block) {
            bounds.check_block(block)?;
        }
        Ok(attribute)
    }
}

struct Parameter {
    name: Ident,
    ty: Type,
    role: Role,
}

struct Kernel<'a> {
    signature: &'a Signature,
    parameters: Vec<Parameter>,
    /// For each instance, the values of the generic parameters in the order of their declaration.
    instances: Vec<Vec<Expr>>,
    contract: Vec<Requirement>,
    safe: bool,
    cluster: u32,
    sm: Generation,
    bounds: Option<Bounds>,
}

impl<'a> Kernel<'a> {
    fn new(attribute: Attribute, signature: &'a Signature) -> Result<Self> {
        let Attribute { lists, mut contract, safe, cluster, sm, bounds } = attribute;
        if !matches!(signature.output, ReturnType::Default) {
            return Err(Error::new(signature.output.span(), "a kernel has no return value"));
        }
        if let (Some(lifetime), false) = (signature.generics.lifetimes().next(), safe) {
            let why = "a lifetime stands for a length in safe kernels: write `#[kernel(safe)]`";
            return Err(Error::new(lifetime.span(), why));
        }
        if safe {
            safe::check_lifetimes(&signature.generics)?;
        }
        let generics: Vec<_> = types_of(signature).collect();
        if generics.len() != lists.len() {
            return Err(Error::new(
                signature.ident.span(),
                "list the values of every generic parameter, as in #[kernel(T = [f32, f64])]",
            ));
        }
        let mut instances = vec![Vec::new()];
        for (generic, (name, values)) in generics.into_iter().zip(&lists) {
            let ident = generic_ident(generic)?;
            if ident != *name {
                let why = format!("expected `{ident}`: list the generic parameters in the order of their declaration");
                return Err(Error::new(name.span(), why));
            }
            instances = instances
                .iter()
                .flat_map(|prefix| {
                    values.iter().map(move |value| prefix.iter().chain([value]).cloned().collect::<Vec<_>>())
                })
                .collect();
        }
        let parameters = signature.inputs.iter().map(Parameter::new).collect::<Result<Vec<_>>>()?;
        if safe {
            let types: Vec<_> =
                parameters.iter().map(|parameter: &Parameter| (&parameter.name, &parameter.ty)).collect();
            contract.extend(safe::contract(&types)?);
        }
        let grid = parameters.iter().find(|parameter| matches!(parameter.role, Role::Grid));
        if let Some(grid) = grid.filter(|_| cluster > 1) {
            return Err(Error::new(grid.ty.span(), "the grid of a kernel with clusters has no barrier"));
        }
        Ok(Self { signature, parameters, instances, contract, safe, cluster, sm, bounds })
    }

    /// The condition that a baseline has the kernel's entry points: those for 9.0 alone have a baseline of their own.
    fn only(&self) -> Tokens {
        match self.sm {
            Generation::Any => quote! { #[cfg(not(warpkov_sm = "90a"))] },
            Generation::Hopper => quote! { #[cfg(all(warpkov_sm = "90", not(warpkov_sm = "90a")))] },
            Generation::HopperAlone => quote! { #[cfg(warpkov_sm = "90a")] },
        }
    }

    /// The name of an instance's entry point, such as `name_f32_4`.
    fn entry(&self, instance: &[Expr]) -> String {
        let mut name = self.signature.ident.to_string();
        for value in instance {
            name.push('_');
            name.push_str(&quote!(#value).to_string());
        }
        name
    }

    /// For `nvptx64`: the entry points of all instances, or a macro call that asks for the next unknown shape.
    fn entries(&self, tokens: Tokens, known: Vec<Shape>) -> Result<Tokens> {
        let ident = &self.signature.ident;
        let roles: Vec<&Role> = self.parameters.iter().map(|parameter| &parameter.role).collect();
        let (next, signature) = (quote! { ::warpkov_device::device::parameter::__entries }, self.signature);
        let shapes = match parameter::with_shapes(&roles, known, &next, &quote! { [#tokens] #signature }) {
            ShapesOf::Asked(call) => return Ok(call),
            ShapesOf::Known(shapes) => shapes,
        };
        let types: Vec<_> = self.parameters.iter().map(|parameter| &parameter.ty).collect();
        let mut flat = Vec::new();
        let parameters = self.parameters.iter().zip(&shapes);
        let values: Vec<_> = parameters
            .map(|(Parameter { name, ty, role }, shape)| match role {
                Role::Tensor => {
                    flat.push(quote! { #name: ::warpkov_device::device::parameter::TensorBytes });
                    Value::AddressOf(flat.len() - 1)
                }
                _ => Value::Of(shape.flatten(&quote! { #ty }, name, &mut flat)),
            })
            .collect();
        let (lifetimes, only): (Vec<_>, _) = (self.signature.generics.lifetimes().collect(), self.only());
        let bounds = self.bounds.as_ref().map(Bounds::mark);
        let places = self.safe.then(|| quote! { ::warpkov_device::device::safe::Places::new() });
        let entries = self.instances.iter().map(|instance| {
            let export = self.entry(instance);
            let aliases = self.aliases(instance);
            let values = values.iter().map(|value| value.in_entry(&export));
            quote! {
                // A dependency of the kernels that `warpkov-build` compiles contributes functions, not entry points.
                #[cfg(not(warpkov_dependency))]
                #only
                const _: () = {
                    #(#[allow(dead_code)] #aliases)*
                    #[unsafe(export_name = #export)]
                    #[allow(unused_variables, improper_ctypes_definitions)]
                    unsafe extern "ptx-kernel" fn entry<#(#lifetimes),*>(#(#flat),*) {
                        // SAFETY: the caller of the launcher promises that all addresses are valid.
                        unsafe {
                            #bounds
                            #ident::<#(#instance),*>(
                                #(<#types as ::warpkov_device::device::Parameter>::from_abi(#values),)*
                                #places
                            )
                        }
                    }
                };
            }
        });
        Ok(quote! {
            #[cfg(target_arch = "nvptx64")]
            #[allow(unexpected_cfgs)]
            const _: () = {
                #(#entries)*
            };
        })
    }

    /// For the host: the typed launcher, and for each instance the function that runs one emulated thread. Those are not
    /// generic, so that the compiler generates code for them in the crate of the kernel and nowhere else.
    fn host(&self, function: &ItemFn) -> Result<Tokens> {
        let (visibility, ident, block) = (&function.vis, &function.sig.ident, rounds::count(&function.block));
        let (inputs, attributes) = (&function.sig.inputs, &function.attrs);
        let lifetimes: Vec<_> = function.sig.generics.lifetimes().collect();
        let all = &function.sig.generics.params;
        let generics: Vec<_> = types_of(&function.sig).collect();
        let clause = &function.sig.generics.where_clause;
        let declared = all.iter();
        let kernel = ident.to_string();
        let structs = self.parameters.iter().filter(|parameter| matches!(parameter.role, Role::Struct(_)));
        let of_structs = structs.map(|Parameter { name, ty, .. }| {
            let path = name.to_string();
            quote! {
                <#ty as ::warpkov_device::device::Parameter>::check::<__D>(&#name, #kernel)
                    .map_err(|__unmet| __unmet.at(#path))?;
            }
        });
        let contract = self.contract.iter().map(|requirement| requirement.check(&quote! { #kernel }));
        let contract = contract.collect::<Result<Vec<_>>>()?;
        let listed = (!self.contract.is_empty()).then(|| format!("\n# Contract\n{}", contract::list(&self.contract)));
        let listed = listed.map(|text| quote! { #[doc = #text] });
        let names: Vec<_> = self.parameters.iter().map(|parameter| &parameter.name).collect();
        let texts: Vec<_> = names.iter().map(|name| name.to_string()).collect();
        let types: Vec<_> = self.parameters.iter().map(|parameter| &parameter.ty).collect();
        let device = format_ident!("__D");
        let (grids, given): (Vec<_>, Vec<_>) =
            self.parameters.iter().partition(|parameter| matches!(parameter.role, Role::Grid));
        let grids = grids.into_iter().map(|Parameter { name, .. }| name);
        let launched = given.iter().map(|Parameter { name, ty, role }| {
            let launched = role.launched(ty, &quote! {}, &device);
            quote! { #name: #launched }
        });
        let keys = generics.iter().map(|generic| match generic {
            GenericParam::Const(constant) => {
                let name = &constant.ident;
                quote! { #name }
            }
            _ => {
                let name = generic_ident(generic).unwrap_or_else(|_| Ident::new("T", Span::call_site()));
                quote! { <#name as ::warpkov_device::device::Named>::NAME }
            }
        });
        let body = format_ident!("__{}_body", ident);
        // SAFETY of the call: it is that of one thread.
        let places = self.safe.then(|| quote! { unsafe { ::warpkov_device::device::safe::Places::new() } });
        let mut inputs = inputs.clone();
        inputs.extend(self.safe.then(safe::argument));
        let thread = |instance: &[Expr]| format_ident!("__{}_thread", self.entry(instance));
        let threads = self.instances.iter().map(|instance| {
            let (thread, aliases) = (thread(instance), self.aliases(instance));
            quote! {
                #[allow(non_snake_case)]
                unsafe fn #thread<#(#lifetimes),*>(__args: &[::warpkov_device::launch::Arg]) {
                    #(#[allow(dead_code)] #aliases)*
                    static __NAMES: ::std::sync::OnceLock<::std::vec::Vec<::std::string::String>> =
                        ::std::sync::OnceLock::new();
                    let __names = __NAMES.get_or_init(|| {
                        let mut __names = ::std::vec::Vec::new();
                        #(<#types as ::warpkov_device::device::Parameter>::name(#texts, &mut __names);)*
                        __names
                    });
                    let mut __leaves = ::warpkov_device::device::parameter::Leaves::new(__args, __names);
                    // SAFETY: the caller promises that these are the arguments of a launch of this instance, with
                    // buffers in host memory.
                    #(let #names = unsafe {
                        <#types as ::warpkov_device::device::Parameter>::emulated(&mut __leaves)
                    };)*
                    #body::<#(#instance),*>(#(#names,)* #places)
                }
            }
        });
        let arms = self.instances.iter().map(|instance| {
            let (entry, thread) = (self.entry(instance), thread(instance));
            let patterns = generics.iter().zip(instance).map(|(generic, value)| match generic {
                GenericParam::Const(_) => quote! { #value },
                _ => {
                    let name = quote!(#value).to_string();
                    quote! { #name }
                }
            });
            quote! { (#(#patterns,)*) => (#entry, #thread), }
        });
        let cluster = self.cluster;
        let forbid = self.safe.then(|| quote! { #[forbid(unsafe_code)] });
        let assert = self.safe.then(|| {
            let numbers = safe::numbers(types.iter().copied());
            quote! {
                fn __safe<P: ::warpkov_device::device::safe::Safe>() {}
                #(__safe::<#types>();)*
                fn __number<E: ::warpkov_device::device::safe::Single>() {}
                #(__number::<#numbers>();)*
            }
        });
        let unsafety = (!self.safe).then(|| quote! { unsafe });
        let promise = if self.safe {
            quote! {
                ///
                /// The launch is safe: the launcher checks the kernel's contract, and the kernel accesses nothing else.
            }
        } else {
            quote! {
                ///
                /// # Safety
                /// Every index that the kernel computes from these arguments is within its buffer, and all buffers belong
                /// to `device`. (The emulator checks the indices; a GPU does not.)
            }
        };
        let missing = format!("kernel {kernel} has no such instance: its #[kernel] attribute lists them");
        let fallback = if generics.is_empty() {
            quote! {}
        } else {
            quote! { _ => panic!(#missing), }
        };
        Ok(quote! {
            #(#attributes)*
            #listed
            #promise
            ///
            /// # Errors
            /// As for [`Device::launch`](::warpkov_device::launch::Device::launch), and a launch that does not meet the kernel's contract.
            #[cfg(not(target_arch = "nvptx64"))]
            #[allow(clippy::too_many_arguments)]
            #visibility #unsafety fn #ident<#(#declared,)* __D: ::warpkov_device::launch::Device>(
                device: &__D,
                shape: ::warpkov_device::launch::Shape,
                #(#launched),*
            ) -> ::core::result::Result<(), __D::Error> #clause {
                #[inline(always)]
                #[allow(clippy::too_many_arguments)]
                #forbid
                fn #body<#all>(#inputs) #clause #block

                #assert

                #(#threads)*

                #(#of_structs)*
                #(#contract)*
                let (__entry, __thread): (&'static ::core::primitive::str, ::warpkov_device::launch::Thread) =
                    match (#(#keys,)*) {
                        #(#arms)*
                        #fallback
                    };
                let mut __args = ::std::vec::Vec::new();
                #(let #grids = ();)*
                #(<#types as ::warpkov_device::device::Parameter>::push::<__D>(&#names, &mut __args);)*
                // SAFETY: entry point, thread and arguments come from one declaration, so they match. The caller
                // promises the rest, or the contract of a safe kernel has been checked.
                unsafe {
                    device.launch(::warpkov_device::launch::Call {
                        kernel: #kernel,
                        entry: __entry,
                        shape,
                        args: &__args,
                        cluster: #cluster,
                        thread: __thread,
                    })
                }
            }
        })
    }

    /// The generic parameters as aliases of an instance's values, so that the parameters' types need no substitution.
    fn aliases(&self, instance: &[Expr]) -> Vec<Tokens> {
        let aliases = types_of(self.signature).zip(instance).map(|(generic, value)| match generic {
            GenericParam::Const(constant) => {
                let (name, ty) = (&constant.ident, &constant.ty);
                quote! { const #name: #ty = #value; }
            }
            _ => {
                let name = generic_ident(generic).unwrap_or_else(|_| Ident::new("T", Span::call_site()));
                quote! { type #name = #value; }
            }
        });
        aliases.collect()
    }
}

/// What an entry point passes to its kernel for a parameter.
enum Value {
    /// An expression.
    Of(Tokens),
    /// The address of a parameter of the entry point, by its position. Rust passes parameters by value.
    AddressOf(usize),
}

impl Value {
    fn in_entry(&self, entry: &str) -> Tokens {
        let at = match self {
            Self::Of(value) => return value.clone(),
            Self::AddressOf(at) => at,
        };
        // LLVM names parameters so.
        let instructions = format!("mov.b64 {{0}}, {entry}_param_{at};\n\tcvta.param.u64 {{0}}, {{0}};");
        quote! {
            {
                let address: u64;
                // The entry point is one of an unsafe block. The instructions compute an address.
                ::core::arch::asm!(#instructions, out(reg64) address, options(pure, nomem, nostack, preserves_flags));
                address
            }
        }
    }
}

/// The generic parameters that are types and constants.
fn types_of(signature: &Signature) -> impl Iterator<Item = &GenericParam> {
    signature.generics.params.iter().filter(|generic| !matches!(generic, GenericParam::Lifetime(_)))
}

fn generic_ident(generic: &GenericParam) -> Result<Ident> {
    match generic {
        GenericParam::Type(ty) => Ok(ty.ident.clone()),
        GenericParam::Const(constant) => Ok(constant.ident.clone()),
        GenericParam::Lifetime(lifetime) => Err(Error::new(lifetime.span(), "a kernel has no lifetime parameters")),
    }
}

impl Parameter {
    fn new(input: &FnArg) -> Result<Self> {
        let FnArg::Typed(typed) = input else {
            return Err(Error::new(input.span(), "a kernel is a free function, without `self`"));
        };
        let Pat::Ident(pattern) = &*typed.pat else {
            return Err(Error::new(typed.pat.span(), "a parameter of a kernel is a name, not a pattern"));
        };
        Ok(Self { name: pattern.ident.clone(), ty: (*typed.ty).clone(), role: Role::of(&typed.ty)? })
    }
}
