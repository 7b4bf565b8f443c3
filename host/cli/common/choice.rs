//! Choices of the library as arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use warpkov::common::choice::Choice;

/// Reads a choice by its name; help lists all of them.
pub fn choice<C: Choice>() -> impl TypedValueParser<Value = C> {
    let values = C::ALL.iter().map(|choice| PossibleValue::new(choice.name()).help(choice.about()));
    PossibleValuesParser::new(values).try_map(|name| C::of_name(&name).ok_or("expected one of these"))
}
