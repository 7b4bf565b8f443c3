//! Policies named on the command line.

use std::path::PathBuf;

use clap::Args;
use warpkov::pomdp::alpha::AlphaVectors;
use warpkov::pomdp::io::read_vectors;
use warpkov::pomdp::model::Pomdp;
use warpkov::pomdp::simulate;

use super::Error;
use super::file::Input;
use crate::cli::common::file::reads;

/// A model and a policy for it.
#[derive(Args)]
pub struct WithPolicy {
    #[command(flatten)]
    pub input: Input,
    /// The policy: alpha vectors in .alpha, or in SARSOP's XML.
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,
}

impl WithPolicy {
    /// Reads both; the vectors are made those of the model to be maximised, as `read_vectors` gives them in its own sign.
    pub fn read(&self) -> Result<(Pomdp, AlphaVectors), Error> {
        let model = self.input.read()?;
        reads(&self.policy)?;
        let policy = read_vectors(&self.policy, None, Some(&model))?.times(model.process().objective().sign());
        let wrong = |error| Error::Usage(format!("{}: {error}", self.policy.display()));
        simulate::check(&model, &policy).map_err(wrong)?;
        Ok((model, policy))
    }
}
