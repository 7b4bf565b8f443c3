//! Choices of the library as arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use warpkov_common::choice::{Choice, FileFormat};

/// Reads a choice by its name; help lists all names.
pub fn choice<C: Choice>() -> impl TypedValueParser<Value = C> {
    parser(|_| &[])
}

/// Reads a format by its name, or by an extension of its files.
pub fn format<F: FileFormat>() -> impl TypedValueParser<Value = F> {
    parser(F::extensions)
}

fn parser<C: Choice>(extensions: fn(C) -> &'static [&'static str]) -> impl TypedValueParser<Value = C> {
    let value = move |choice: &C| {
        let aliases = extensions(*choice).iter().filter(|extension| C::of_name(extension).is_none());
        PossibleValue::new(choice.name()).help(choice.about()).aliases(aliases.copied())
    };
    let find = move |text: &str| {
        let known = |choice: &C| extensions(*choice).contains(&text);
        C::of_name(text).or_else(|| C::ALL.iter().copied().find(known))
    };
    PossibleValuesParser::new(C::ALL.iter().map(value))
        .try_map(move |text| find(&text).ok_or("expected one of these names"))
}
