//! `--method`: the name of a method, and its options.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use warpkov_mdp::options::Method;

use crate::common::choice::choice;

/// Reads `NAME` or `NAME:OPTION=VALUE,…`; help lists all names.
#[derive(Clone)]
pub struct WithOptions;

impl TypedValueParser for WithOptions {
    type Value = Method;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<Self::Value, Error> {
        let text = value.to_string_lossy();
        let name = text.split(':').next().unwrap_or_default();
        // Its error lists the names, and suggests a similar one.
        choice::<Method>().parse_ref(command, argument, OsStr::new(name))?;
        text.parse().map_err(|problem| {
            Error::raw(ErrorKind::ValueValidation, format!("--method {text}: {problem}\n")).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names: Vec<PossibleValue> = choice::<Method>().possible_values()?.collect();
        Some(Box::new(names.into_iter()))
    }
}
