//! The derive `DeviceCopy`: structs as elements of device memory.

use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Error, Result};

/// The trait's implementation for a struct, and assertions that its fields implement the trait and leave no padding.
pub fn derive(input: &DeriveInput) -> Result<Tokens> {
    let name = &input.ident;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            name.span(),
            "an element of device memory is a number or a struct: not every bit pattern is valid for another type",
        ));
    };
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new_spanned(parameter, "an element of device memory has no generic parameters"));
    }
    let reprs = input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr"));
    let is_c = reprs
        .map(|attribute| attribute.meta.to_token_stream().to_string())
        .any(|text| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "C" || word == "transparent"));
    if !is_c {
        return Err(Error::new(name.span(), "write `#[repr(C)]`: host and GPU must agree on the order of the fields"));
    }
    let types: Vec<_> = data.fields.iter().map(|field| &field.ty).collect();
    let padding = format!("{name} has padding between or after its fields: add fields that fill it");
    Ok(quote! {
        const _: () = {
            const fn element<T: ::warpkov_device::device::DeviceCopy>() -> usize {
                ::core::mem::size_of::<T>()
            }
            assert!(::core::mem::size_of::<#name>() == 0 #(+ element::<#types>())*, #padding);
        };
        // SAFETY: the assertion above compiles only if each field may have any bits and the fields leave no padding. With
        // `repr(C)` their order is fixed. `Pod` requires `Copy` and 'static as well.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe impl ::warpkov_device::device::bytemuck::Zeroable for #name {}
        // SAFETY: as above.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe impl ::warpkov_device::device::bytemuck::Pod for #name {}
        impl ::warpkov_device::device::safe::Single for #name {}
        impl ::warpkov_device::device::safe::Item for #name {
            type Number = Self;
            const COUNT: usize = 1;

            #[inline(always)]
            #[track_caller]
            fn read(view: ::warpkov_device::device::Global<Self>, index: usize) -> Self {
                view.get(index)
            }

            #[inline(always)]
            #[track_caller]
            fn read_back(view: ::warpkov_device::device::GlobalMut<Self>, index: usize) -> Self {
                view.get(index)
            }

            #[inline(always)]
            #[track_caller]
            fn write(view: ::warpkov_device::device::GlobalMut<Self>, index: usize, value: Self) {
                view.set(index, value);
            }
        }
    })
}
