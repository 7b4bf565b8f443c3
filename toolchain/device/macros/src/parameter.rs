//! The derive `Parameter`, for structs that are kernel parameters.
//!
//! An entry point has one parameter for each scalar and view of a struct, but `#[kernel]` sees only the struct's name.
//! The derive therefore defines a macro of the same name, which `use` imports together with the struct. This macro
//! passes the struct's *shape* to another macro: `_` for each scalar or view, and a parenthesised shape for each
//! struct. [`with_shapes`] calls such macros one after another until all shapes are known.

use proc_macro2::{Delimiter, TokenStream as Tokens, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Fields, GenericArgument, GenericParam, Ident, LitInt, Path, PathArguments, Result, Token,
    Type, Visibility, parse_quote,
};

use crate::contract::{self, OfStruct, of_struct};

/// The kind of a parameter or of a field.
pub enum Role {
    /// `Global<T>`, with T.
    Read(Type),
    /// `GlobalMut<T>`, with T.
    Write(Type),
    Scalar,
    /// `TensorMap<T, R>`.
    Tensor,
    /// `GridGroup`, for which a launch has no argument.
    Grid,
    /// A parameter of a safe kernel: its buffers and numbers, whether the launcher borrows it mutably, and the type of the numbers in
    /// its buffer, if its argument is one.
    Safe {
        leaves: usize,
        writes: bool,
        numbers: Option<Type>,
    },
    /// A struct, with the path of its macro.
    Struct(Path),
}

impl Role {
    pub fn of(ty: &Type) -> Result<Self> {
        const SCALARS: [&str; 10] = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64"];
        const SAFE: [(&str, usize, bool); 12] = [
            ("Len", 1, false),
            ("In", 1, false),
            ("Out", 1, true),
            ("In2", 1, false),
            ("Out2", 1, true),
            ("Slice", 2, false),
            ("SparseRows", 3, false),
            ("Indices", 1, false),
            ("Counters", 1, true),
            ("Atomics", 2, true),
            ("PerBlock", 1, true),
            ("PerThread", 1, true),
        ];
        const EXPECTED: &str = "expected a scalar, `Global<T>`, `GlobalMut<T>`, or a struct that derives `Parameter`";
        let error = || Error::new(ty.span(), EXPECTED);
        let Type::Path(path) = ty else { return Err(error()) };
        let last = path.path.segments.last().ok_or_else(error)?;
        let element = match &last.arguments {
            PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
                Some(GenericArgument::Type(element)) => Some(element.clone()),
                _ => None,
            },
            _ => None,
        };
        Ok(match (last.ident.to_string().as_str(), element) {
            ("Global", Some(element)) => Self::Read(element),
            ("GlobalMut", Some(element)) => Self::Write(element),
            (name, None) if SCALARS.contains(&name) => Self::Scalar,
            ("GridGroup", None) => Self::Grid,
            ("TensorMap", Some(_)) => Self::Tensor,
            (name, _) => {
                let with_arguments = !matches!(last.arguments, PathArguments::None);
                if let Some((_, leaves, writes)) = SAFE.into_iter().find(|(safe, ..)| *safe == name && with_arguments) {
                    let numbers = match name {
                        "Len" | "Indices" | "SparseRows" => None,
                        _ => number_of(&last.arguments),
                    };
                    return Ok(Self::Safe { leaves, writes, numbers });
                }
                let mut path = path.path.clone();
                path.segments.iter_mut().for_each(|segment| segment.arguments = PathArguments::None);
                Self::Struct(path)
            }
        })
    }

    /// The type of the launcher's argument.
    pub fn launched(&self, ty: &Type, lifetime: &Tokens, device: &Ident) -> Tokens {
        match self {
            Self::Read(element) => quote! { &#lifetime #device::Buffer<#element> },
            Self::Write(element) => quote! { &#lifetime mut #device::Buffer<#element> },
            // The compiler infers T from a buffer of T, but not from one of `<T as Item>::Number`.
            Self::Safe { writes: false, numbers: Some(number), .. } => quote! { &#lifetime #device::Buffer<#number> },
            Self::Safe { numbers: Some(number), .. } => quote! { &#lifetime mut #device::Buffer<#number> },
            Self::Scalar => quote! { #ty },
            Self::Grid => quote! { () },
            Self::Struct(_) | Self::Safe { .. } | Self::Tensor => {
                let lifetime = if lifetime.is_empty() {
                    quote! { '_ }
                } else {
                    lifetime.clone()
                };
                quote! { <#ty as ::warpkov_device::device::Parameter>::Launched<#lifetime, #device> }
            }
        }
    }
}

/// The type of the numbers in a view's elements: its first type, or that in an array of it.
fn number_of(arguments: &PathArguments) -> Option<Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(Type::Array(array)) => Some((*array.elem).clone()),
        GenericArgument::Type(number) => Some(number.clone()),
        _ => None,
    })
}

/// The tree of scalars and views in a parameter.
pub enum Shape {
    Leaf,
    Struct(Vec<Shape>),
}

impl Parse for Shape {
    fn parse(input: ParseStream) -> Result<Self> {
        if input.peek(Token![_]) {
            input.parse::<Token![_]>()?;
            return Ok(Self::Leaf);
        }
        let content;
        syn::parenthesized!(content in input);
        let mut fields = Vec::new();
        while !content.is_empty() {
            fields.push(content.parse()?);
        }
        Ok(Self::Struct(fields))
    }
}

impl ToTokens for Shape {
    fn to_tokens(&self, tokens: &mut Tokens) {
        match self {
            Self::Leaf => quote! { _ }.to_tokens(tokens),
            Self::Struct(fields) => quote! { (#(#fields)*) }.to_tokens(tokens),
        }
    }
}

impl Shape {
    /// Appends to `flat` an entry point's parameter for each scalar and view of `ty`. Returns the value of `ty::Abi`
    /// made of them.
    pub fn flatten(&self, ty: &Tokens, name: &Ident, flat: &mut Vec<Tokens>) -> Tokens {
        match self {
            Self::Leaf => {
                flat.push(quote! { #name: <#ty as ::warpkov_device::device::Parameter>::Abi });
                quote! { #name }
            }
            Self::Struct(fields) => {
                let fields = fields.iter().enumerate().map(|(at, field)| {
                    let at = LitInt::new(&at.to_string(), name.span());
                    let ty = quote! { <#ty as ::warpkov_device::device::parameter::Field<#at>>::Type };
                    field.flatten(&ty, &format_ident!("{}_{}", name, at.base10_digits()), flat)
                });
                quote! { (#(#fields,)*) }
            }
        }
    }
}

/// The shapes of all `roles`, of which `known` are those of the first structs; or a call of the next struct's macro,
/// which in turn calls `next! { { tokens } known shape }`. For `nvptx64`.
pub fn with_shapes(roles: &[&Role], known: Vec<Shape>, next: &Tokens, tokens: &Tokens) -> ShapesOf {
    let structs = || roles.iter().filter_map(|role| if let Role::Struct(path) = role { Some(path) } else { None });
    match structs().nth(known.len()) {
        Some(path) => ShapesOf::Asked(quote! {
            #[cfg(target_arch = "nvptx64")]
            #path! { { #next } { #tokens } #(#known)* }
        }),
        None => {
            let mut known = known.into_iter();
            let shape = |role: &&Role| match role {
                Role::Struct(_) => known.next().unwrap_or(Shape::Leaf),
                &&Role::Safe { leaves, .. } if leaves > 1 => Shape::Struct((0..leaves).map(|_| Shape::Leaf).collect()),
                _ => Shape::Leaf,
            };
            ShapesOf::Known(roles.iter().map(shape).collect())
        }
    }
}

/// The result of [`with_shapes`].
pub enum ShapesOf {
    /// A macro call that asks for the next shape.
    Asked(Tokens),
    /// All shapes.
    Known(Vec<Shape>),
}

/// The input of a macro that has asked for shapes: the tokens of its query, and the shapes known so far.
pub struct Answer<T> {
    pub asked: T,
    pub known: Vec<Shape>,
}

impl<T: Parse> Parse for Answer<T> {
    fn parse(input: ParseStream) -> Result<Self> {
        let group: TokenTree = input.parse()?;
        let tokens = match group {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => group.stream(),
            other => return Err(Error::new(other.span(), "expected the tokens of a query, in braces")),
        };
        let mut known = Vec::new();
        while !input.is_empty() {
            known.push(input.parse()?);
        }
        Ok(Self { asked: syn::parse2(tokens)?, known })
    }
}

/// The part of a struct that determines its shape: `visibility Name { types of fields }`.
pub struct Struct {
    visibility: Visibility,
    name: Ident,
    types: Vec<Type>,
}

impl Parse for Struct {
    fn parse(input: ParseStream) -> Result<Self> {
        let (visibility, name) = (input.parse()?, input.parse()?);
        let content;
        syn::braced!(content in input);
        let types = Punctuated::<Type, Token![,]>::parse_terminated(&content)?;
        Ok(Self { visibility, name, types: types.into_iter().collect() })
    }
}

impl ToTokens for Struct {
    fn to_tokens(&self, tokens: &mut Tokens) {
        let Self { visibility, name, types } = self;
        quote! { #visibility #name { #(#types),* } }.to_tokens(tokens);
    }
}

/// The macro of the struct's name, or a macro call that asks for the next shape of a field.
pub fn shape_macro(declared: &Struct, known: Vec<Shape>) -> Result<Tokens> {
    let roles = declared.types.iter().map(Role::of).collect::<Result<Vec<_>>>()?;
    let roles: Vec<&Role> = roles.iter().collect();
    let next = quote! { ::warpkov_device::device::parameter::__shape };
    Ok(match with_shapes(&roles, known, &next, &declared.to_token_stream()) {
        ShapesOf::Asked(call) => call,
        ShapesOf::Known(shapes) => {
            let name = &declared.name;
            let hidden = format_ident!("__shape_of_{}", name);
            // `macro_rules!` without `#[macro_export]` cannot be `pub`. No other crate needs it.
            let visibility = match &declared.visibility {
                Visibility::Public(_) => quote! { pub(crate) },
                other => quote! { #other },
            };
            quote! {
                #[cfg(target_arch = "nvptx64")]
                #[allow(unused_macros)]
                macro_rules! #hidden {
                    ({ $($next:tt)* } $($tokens:tt)*) => { $($next)* ! { $($tokens)* (#(#shapes)*) } };
                }
                #[cfg(target_arch = "nvptx64")]
                #[allow(unused_imports)]
                #visibility use #hidden as #name;
            }
        }
    })
}

/// The expansion of the derive. One function, because its three outputs (the shape's macro, the launcher's argument and
/// the trait implementations) share most of their tokens.
pub fn derive(input: &DeriveInput) -> Result<Tokens> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "`Parameter` requires a struct"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.ident.span(), "`Parameter` requires a struct with named fields"));
    };
    if let Some(generic) = input.generics.params.iter().find(|generic| !matches!(generic, GenericParam::Type(_))) {
        return Err(Error::new(generic.span(), "`Parameter` allows type parameters only, for element types"));
    }
    let (name, visibility) = (&input.ident, &input.vis);
    let names: Vec<&Ident> = fields.named.iter().filter_map(|field| field.ident.as_ref()).collect();
    let types: Vec<&Type> = fields.named.iter().map(|field| &field.ty).collect();
    let roles = types.iter().map(|ty| Role::of(ty)).collect::<Result<Vec<_>>>()?;
    if let Some((_, ty)) = roles.iter().zip(&types).find(|(role, _)| matches!(role, Role::Grid | Role::Tensor)) {
        return Err(Error::new(ty.span(), "a `GridGroup` or a `TensorMap` is a parameter of the kernel itself"));
    }
    let declared = Struct {
        visibility: visibility.clone(),
        name: name.clone(),
        types: types.iter().map(|ty| (*ty).clone()).collect(),
    };
    let shape = shape_macro(&declared, Vec::new())?;
    let mut contracts: Vec<OfStruct> = Vec::new();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("parameter")) {
        contracts.push(syn::parse2(of_struct(attribute.meta.require_list()?.tokens.clone(), &names))?);
    }
    let checks = |contract: &OfStruct| {
        contract
            .requirements
            .iter()
            .map(|requirement| requirement.check(&quote! { __kernel }))
            .collect::<Result<Vec<_>>>()
    };
    let (of_numbers, always): (Vec<_>, Vec<_>) = contracts.iter().partition(|contract| contract.numbers.is_some());
    let contract = always.into_iter().map(checks).collect::<Result<Vec<_>>>()?.concat();

    // Every type parameter is an element type, whose values are in device memory.
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote! { ::warpkov_device::device::DeviceCopy });
    }
    let (of, arguments, clause) = generics.split_for_impl();
    let numbers = (0..names.len()).map(|at| LitInt::new(&at.to_string(), name.span()));
    let parameter = quote! { ::warpkov_device::device::Parameter };

    // A struct of scalars only is its own argument.
    let scalars = roles.iter().all(|role| matches!(role, Role::Scalar));
    if scalars && !of_numbers.is_empty() {
        return Err(Error::new(name.span(), "`holds(…)` is for structs with buffers"));
    }
    let launched = format_ident!("{}Args", name);
    let idents: Vec<&Ident> = generics.type_params().map(|parameter| &parameter.ident).collect();
    let (launched_type, definition) = if scalars {
        (quote! { Self }, quote! {})
    } else {
        let device = format_ident!("__D");
        let field_types = roles.iter().zip(&types).map(|(role, ty)| role.launched(ty, &quote! { 'a }, &device));
        let field_types: Vec<Tokens> = field_types.collect();
        let docs = fields.named.iter().map(|field| {
            let docs: Vec<_> = field.attrs.iter().filter(|attribute| attribute.path().is_ident("doc")).collect();
            quote! { #(#docs)* }
        });
        let mut extended = generics.clone();
        extended.params.insert(0, parse_quote! { 'a });
        extended.params.push(parse_quote! { __D: ::warpkov_device::launch::Device });
        let (of, arguments, clause) = extended.split_for_impl();
        let mut about = format!("The launcher's argument for [`{name}`].");
        for OfStruct { numbers, requirements } in &contracts {
            let of = numbers.as_ref().map(|numbers| {
                let numbers: Vec<_> = numbers.iter().map(Ident::to_string).collect();
                format!(" of `holds({})`", numbers.join(", "))
            });
            about += &format!("\n\n# Contract{}\n{}", of.unwrap_or_default(), contract::list(requirements));
        }
        let holds = of_numbers.iter().map(|contract| {
            let (numbers, checks) = (&contract.numbers.as_deref().unwrap_or_default(), checks(contract)?);
            Ok(quote! {
                #[doc(hidden)]
                pub fn holds(
                    &self,
                    __kernel: &'static ::core::primitive::str,
                    #(#numbers: ::warpkov_device::launch::Extent),*
                ) -> ::core::result::Result<(), ::warpkov_device::launch::Unmet> {
                    let __self = self;
                    #(#checks)*
                    ::core::result::Result::Ok(())
                }
            })
        });
        let holds = holds.collect::<Result<Vec<_>>>()?;
        // An argument without `&mut` can be copied.
        let read_only = !roles.iter().any(|role| matches!(role, Role::Write(_) | Role::Safe { writes: true, .. }));
        let inner = field_types.iter().zip(&roles).filter(|(_, role)| matches!(role, Role::Struct(_)));
        let inner: Vec<&Tokens> = inner.map(|(ty, _)| ty).collect();
        let predicates = clause.map(|clause| clause.predicates.iter().collect::<Vec<_>>()).unwrap_or_default();
        let copies = read_only.then(|| {
            quote! {
                #[cfg(not(target_arch = "nvptx64"))]
                #[automatically_derived]
                impl #of Clone for #launched #arguments where #(#predicates,)* #(#inner: Copy,)* {
                    fn clone(&self) -> Self {
                        *self
                    }
                }
                #[cfg(not(target_arch = "nvptx64"))]
                #[automatically_derived]
                impl #of Copy for #launched #arguments where #(#predicates,)* #(#inner: Copy,)* {}
            }
        });
        let definition = quote! {
            #[doc = #about]
            #[cfg(not(target_arch = "nvptx64"))]
            #visibility struct #launched #of #clause {
                #(#docs pub #names: #field_types,)*
            }
            #copies
            #[cfg(not(target_arch = "nvptx64"))]
            #[automatically_derived]
            impl #of #launched #arguments #clause {
                #(#holds)*
            }
        };
        (quote! { #launched<'a, #(#idents,)* __D> }, definition)
    };
    let texts = names.iter().map(|name| format!(".{name}"));
    let structs = names.iter().zip(&types).zip(&roles).filter(|(_, role)| matches!(role, Role::Struct(_)));
    let of_structs = structs.map(|((name, ty), _)| {
        let path = format!("__self.{name}");
        quote! { <#ty as #parameter>::check::<__D>(&__self.#name, __kernel).map_err(|__unmet| __unmet.at(#path))?; }
    });
    let words = scalars.then(|| {
        let scalar = quote! { ::warpkov_device::device::Scalars };
        quote! {
            #[automatically_derived]
            impl #of #scalar for #name #arguments #clause {
                const WORDS: usize = 0 #(+ <#types as #scalar>::WORDS)*;

                #[inline(always)]
                fn to_words(&self, each: &mut impl FnMut(u64)) {
                    #(<#types as #scalar>::to_words(&self.#names, each);)*
                    let _ = each;
                }

                #[inline(always)]
                fn of_words(next: &mut impl FnMut() -> u64) -> Self {
                    let _ = &next;
                    Self { #(#names: <#types as #scalar>::of_words(next)),* }
                }
            }
        }
    });

    let may_be_safe = roles.iter().all(|role| matches!(role, Role::Scalar | Role::Safe { .. }));
    let safe = may_be_safe.then(|| {
        let predicates = clause.map(|clause| clause.predicates.iter().collect::<Vec<_>>()).unwrap_or_default();
        quote! {
            #[automatically_derived]
            // SAFETY: each field checks its own accesses.
            unsafe impl #of ::warpkov_device::device::safe::Safe for #name #arguments
            where
                #(#predicates,)*
                #(#types: ::warpkov_device::device::safe::SafeField,)*
            {
            }
        }
    });

    Ok(quote! {
        #shape

        #definition

        #words

        #safe

        #[cfg(target_arch = "nvptx64")]
        #[automatically_derived]
        impl #of #parameter for #name #arguments #clause {
            type Abi = (#(<#types as #parameter>::Abi,)*);

            #[inline(always)]
            unsafe fn from_abi((#(#names,)*): Self::Abi) -> Self {
                // SAFETY: the caller's promise holds for each field.
                unsafe { Self { #(#names: <#types as #parameter>::from_abi(#names)),* } }
            }
        }

        #(
            #[cfg(target_arch = "nvptx64")]
            #[automatically_derived]
            impl #of ::warpkov_device::device::parameter::Field<#numbers> for #name #arguments #clause {
                type Type = #types;
            }
        )*

        #[cfg(not(target_arch = "nvptx64"))]
        #[automatically_derived]
        impl #of #parameter for #name #arguments #clause {
            type Launched<'a, __D: ::warpkov_device::launch::Device> = #launched_type;

            fn name(path: &str, names: &mut Vec<String>) {
                #(<#types as #parameter>::name(&[path, #texts].concat(), names);)*
            }

            fn push<__D: ::warpkov_device::launch::Device>(
                launched: &Self::Launched<'_, __D>,
                args: &mut Vec<::warpkov_device::launch::Arg>,
            ) {
                #(<#types as #parameter>::push::<__D>(&launched.#names, args);)*
            }

            fn check<__D: ::warpkov_device::launch::Device>(
                __self: &Self::Launched<'_, __D>,
                __kernel: &'static ::core::primitive::str,
            ) -> ::core::result::Result<(), ::warpkov_device::launch::Unmet> {
                #(#of_structs)*
                #(#contract)*
                ::core::result::Result::Ok(())
            }

            #[inline]
            unsafe fn emulated(leaves: &mut ::warpkov_device::device::parameter::Leaves<'_>) -> Self {
                // SAFETY: the caller's promise holds for each field; `push` has appended the leaves in this order.
                unsafe { Self { #(#names: <#types as #parameter>::emulated(leaves)),* } }
            }
        }
    })
}
