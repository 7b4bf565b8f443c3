//! The `#[kernel]` attribute: one declaration gives the device entry, the emulated function and the typed launcher.

use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as Tokens};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Error, Expr, FnArg, GenericArgument, GenericParam, Ident, ItemFn, Pat, PathArguments, Result, ReturnType, Token,
    Type, bracketed, parse_macro_input,
};

/// Declares a kernel.
///
/// The function's parameters are `Global<T>` (read only during the launch), `GlobalMut<T>`, and scalars. A generic kernel
/// lists the instances that the PTX shall hold: `#[kernel(T = [f32, f64], LANES = [2, 4])]` makes the entries
/// `name_f32_2`, `name_f32_4`, `name_f64_2` and `name_f64_4`.
///
/// - For `nvptx64`, the function stays as it is, and each instance gets an entry point of the PTX calling convention.
/// - For the host, the function's name becomes its typed launcher: `unsafe fn name(device, shape, …)`, where a `Global<T>`
///   is a `&D::Buffer<T>` and a `GlobalMut<T>` a `&mut D::Buffer<T>`. A launch with a wrong number or type of arguments,
///   or one that reads and writes the same buffer through two parameters, does not compile.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let instances = parse_macro_input!(attribute as Instances);
    let function = parse_macro_input!(item as ItemFn);
    match Kernel::new(instances, &function) {
        Ok(kernel) => {
            let (device, host) = (kernel.device(), kernel.host());
            quote! { #device #host }.into()
        }
        Err(error) => error.to_compile_error().into(),
    }
}

/// The attribute's argument: each generic parameter with the values it is instantiated for.
struct Instances(Vec<(Ident, Vec<Expr>)>);

impl Parse for Instances {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut lists = Vec::new();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            let values;
            bracketed!(values in input);
            lists.push((name, Punctuated::<Expr, Token![,]>::parse_terminated(&values)?.into_iter().collect()));
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self(lists))
    }
}

/// What a parameter is for the launcher.
enum Role {
    Read(Type),
    Write(Type),
    Scalar,
}

struct Parameter {
    name: Ident,
    ty: Type,
    role: Role,
}

struct Kernel<'a> {
    function: &'a ItemFn,
    parameters: Vec<Parameter>,
    /// For each instance, the value of every generic parameter, in the order of the function's generics.
    instances: Vec<Vec<Expr>>,
}

impl<'a> Kernel<'a> {
    fn new(Instances(lists): Instances, function: &'a ItemFn) -> Result<Self> {
        if !matches!(function.sig.output, ReturnType::Default) {
            return Err(Error::new(function.sig.output.span(), "a kernel returns nothing"));
        }
        let generics = &function.sig.generics.params;
        if generics.len() != lists.len() {
            return Err(Error::new(
                function.sig.ident.span(),
                "list the instances of every generic parameter: #[kernel(T = [f32, f64])]",
            ));
        }
        let mut instances = vec![Vec::new()];
        for (generic, (name, values)) in generics.iter().zip(&lists) {
            let ident = generic_ident(generic)?;
            if ident != *name {
                return Err(Error::new(name.span(), format!("expected `{ident}`: keep the order of the generics")));
            }
            instances = instances
                .iter()
                .flat_map(|prefix| {
                    values.iter().map(move |value| prefix.iter().chain([value]).cloned().collect::<Vec<_>>())
                })
                .collect();
        }
        let parameters = function.sig.inputs.iter().map(parameter).collect::<Result<_>>()?;
        Ok(Self { function, parameters, instances })
    }

    /// The name of an instance's entry point: `name_f32_4`.
    fn entry(&self, instance: &[Expr]) -> String {
        let mut name = self.function.sig.ident.to_string();
        for value in instance {
            name.push('_');
            name.push_str(&quote!(#value).to_string());
        }
        name
    }

    /// For `nvptx64`: the function, and an entry point for each instance.
    fn device(&self) -> Tokens {
        let function = self.function;
        let ident = &function.sig.ident;
        let names: Vec<_> = self.parameters.iter().map(|parameter| &parameter.name).collect();
        let types: Vec<_> = self.parameters.iter().map(|parameter| &parameter.ty).collect();
        let entries = self.instances.iter().map(|instance| {
            let export = self.entry(instance);
            // The generics' names become aliases, so that the parameters' types can be repeated as they were written.
            let aliases = function.sig.generics.params.iter().zip(instance).map(|(generic, value)| match generic {
                GenericParam::Const(constant) => {
                    let (name, ty) = (&constant.ident, &constant.ty);
                    quote! { const #name: #ty = #value; }
                }
                _ => {
                    let name = generic_ident(generic).unwrap_or_else(|_| Ident::new("T", Span::call_site()));
                    quote! { type #name = #value; }
                }
            });
            quote! {
                #[cfg(target_arch = "nvptx64")]
                const _: () = {
                    #(#[allow(dead_code)] #aliases)*
                    #[unsafe(export_name = #export)]
                    unsafe extern "ptx-kernel" fn entry(
                        #(#names: <#types as ::warpkov_device::device::Parameter>::Abi),*
                    ) {
                        // SAFETY: whoever launches the kernel has promised what the views ask for.
                        unsafe {
                            #ident::<#(#instance),*>(
                                #(<#types as ::warpkov_device::device::Parameter>::from_abi(#names)),*
                            )
                        }
                    }
                };
            }
        });
        quote! {
            #[cfg(target_arch = "nvptx64")]
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            #function
            #(#entries)*
        }
    }

    /// For the host: the typed launcher, with the function inside as what an emulated thread runs.
    fn host(&self) -> Tokens {
        let function = self.function;
        let (visibility, ident, block) = (&function.vis, &function.sig.ident, &function.block);
        let (inputs, attributes) = (&function.sig.inputs, &function.attrs);
        let generics = &function.sig.generics.params;
        let clause = &function.sig.generics.where_clause;
        let arguments: Vec<_> = generics.iter().filter_map(|generic| generic_ident(generic).ok()).collect();
        let declared = generics.iter();
        let kernel = ident.to_string();
        let names: Vec<_> = self.parameters.iter().map(|parameter| &parameter.name).collect();
        let launch_types = self.parameters.iter().map(|parameter| match &parameter.role {
            Role::Read(element) => quote! { &__D::Buffer<#element> },
            Role::Write(element) => quote! { &mut __D::Buffer<#element> },
            Role::Scalar => {
                let ty = &parameter.ty;
                quote! { #ty }
            }
        });
        let args: Vec<_> = self
            .parameters
            .iter()
            .map(|Parameter { name, role, .. }| match role {
                Role::Scalar => quote! { ::warpkov_device::launch::Arg::scalar(#name) },
                _ => quote! { ::warpkov_device::launch::Buffer::arg(#name) },
            })
            .collect();
        let views = self.parameters.iter().enumerate().map(|(index, Parameter { name, ty, role })| match role {
            Role::Scalar => quote! { #name },
            _ => {
                let text = name.to_string();
                quote! {{
                    // SAFETY: the launcher's buffers outlive the launch, and the emulator checks every access.
                    unsafe { <#ty>::emulated(&__args[#index], #text) }
                }}
            }
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
        let arms = self.instances.iter().map(|instance| {
            let entry = self.entry(instance);
            let patterns = generics.iter().zip(instance).map(|(generic, value)| match generic {
                GenericParam::Const(_) => quote! { #value },
                _ => {
                    let name = quote!(#value).to_string();
                    quote! { #name }
                }
            });
            quote! { (#(#patterns,)*) => #entry, }
        });
        let missing = format!("{kernel} has no such instance: see its #[kernel] attribute");
        let fallback = if generics.is_empty() {
            quote! {}
        } else {
            quote! { _ => panic!(#missing), }
        };
        let body = format_ident!("__{}_thread", ident);
        quote! {
            #(#attributes)*
            ///
            /// # Safety
            /// Every index that the kernel computes from these arguments must lie inside its buffer, and all buffers must
            /// belong to `device`. (The emulator checks this; the GPU does not.)
            ///
            /// # Errors
            /// Those of [`Device::launch`](::warpkov_device::launch::Device::launch).
            #[cfg(not(target_arch = "nvptx64"))]
            #[allow(clippy::too_many_arguments)]
            #visibility unsafe fn #ident<#(#declared,)* __D: ::warpkov_device::launch::Device>(
                device: &__D,
                shape: ::warpkov_device::launch::Shape,
                #(#names: #launch_types),*
            ) -> ::core::result::Result<(), __D::Error> #clause {
                #[inline(always)]
                #[allow(clippy::too_many_arguments)]
                fn #body<#generics>(#inputs) #clause #block

                let __entry = match (#(#keys,)*) {
                    #(#arms)*
                    #fallback
                };
                let __args = [#(#args),*];
                // SAFETY: entry and arguments come from one declaration; the caller promises the rest.
                unsafe {
                    device.launch(
                        ::warpkov_device::launch::Call { kernel: #kernel, entry: __entry, shape, args: &__args },
                        || #body::<#(#arguments),*>(#(#views),*),
                    )
                }
            }
        }
    }
}

fn generic_ident(generic: &GenericParam) -> Result<Ident> {
    match generic {
        GenericParam::Type(ty) => Ok(ty.ident.clone()),
        GenericParam::Const(constant) => Ok(constant.ident.clone()),
        GenericParam::Lifetime(lifetime) => Err(Error::new(lifetime.span(), "a kernel has no lifetime parameters")),
    }
}

fn parameter(input: &FnArg) -> Result<Parameter> {
    let FnArg::Typed(typed) = input else {
        return Err(Error::new(input.span(), "a kernel is a free function"));
    };
    let Pat::Ident(pattern) = &*typed.pat else {
        return Err(Error::new(typed.pat.span(), "a kernel's parameters are plain names"));
    };
    Ok(Parameter { name: pattern.ident.clone(), ty: (*typed.ty).clone(), role: role(&typed.ty) })
}

fn role(ty: &Type) -> Role {
    let Type::Path(path) = ty else { return Role::Scalar };
    let Some(last) = path.path.segments.last() else { return Role::Scalar };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Role::Scalar };
    match (last.ident.to_string().as_str(), arguments.args.first()) {
        ("Global", Some(GenericArgument::Type(element))) => Role::Read(element.clone()),
        ("GlobalMut", Some(GenericArgument::Type(element))) => Role::Write(element.clone()),
        _ => Role::Scalar,
    }
}
