//! Where and how accurately the commands around a policy solve a model.

use clap::Args;
use warpkov_mdp::ask::evaluate::Options as Solve;
use warpkov_mdp::criterion::{self as library, Criterion};
use warpkov_mdp::model::{Mdp, Objective};
use warpkov_mdp::options::Precision;
use warpkov_runtime::choose::DeviceChoice;

use super::{Error, criterion};
use crate::common::choice::choice;
use crate::common::number;

/// Device, precision and ε.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// Device: auto, cpu, cuda:N or emulated.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Floating-point type of the sweeps of the discounted criterion.
    #[arg(long, value_parser = choice::<Precision>(), default_value = "mixed")]
    precision: Precision,
    /// ε: maximum error of the values.
    #[arg(long, value_name = "E", default_value = "1e-6", value_parser = number::positive)]
    epsilon: f64,
    /// Maximum number of sweeps [default: 1000000; 100000000 without a discount].
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    max_sweeps: Option<u32>,
}

impl Arguments {
    /// The options of a discounted solve.
    pub fn discounted(&self) -> Solve {
        let max_sweeps = self.max_sweeps.unwrap_or(1_000_000).into();
        let accuracy = library::Options { epsilon: self.epsilon, relative: false, max_sweeps };
        Solve { device: self.device, precision: self.precision, accuracy }
    }
}

/// γ in place of that of the model.
#[derive(Args)]
#[group(skip)]
pub struct Discount {
    /// Discount factor γ in [0, 1], in place of that of the model.
    #[arg(long, value_name = "G", value_parser = number::probability)]
    pub gamma: Option<f64>,
}

impl Discount {
    /// The model with this γ.
    pub fn apply(&self, mdp: Mdp) -> Result<Mdp, Error> {
        match self.gamma {
            Some(gamma) => mdp.with_gamma(gamma).map_err(|error| Error::Usage(format!("--gamma: {error}"))),
            None => Ok(mdp),
        }
    }
}

/// A criterion with its accuracy, before the model is read.
#[derive(Args)]
#[group(skip)]
pub struct Criteria {
    #[command(flatten)]
    accuracy: Arguments,
    #[command(flatten)]
    discount: Discount,
    #[command(flatten)]
    criterion: criterion::Arguments,
}

/// The validated criterion.
pub struct Question {
    solve: Solve,
    discount: Discount,
    objective: Option<Objective>,
    criterion: Option<criterion::Options>,
}

impl TryFrom<Criteria> for Question {
    type Error = Error;

    fn try_from(arguments: Criteria) -> Result<Self, Error> {
        let Criteria { accuracy, discount, criterion } = arguments;
        if discount.gamma.is_some() && !criterion.discounts() {
            return Err(Error::Usage("--gamma is for the discounted criterion and --horizon only".to_owned()));
        }
        let objective = criterion.objective();
        let solve = accuracy.discounted();
        let criterion = criterion.options(accuracy.epsilon, accuracy.max_sweeps)?;
        if criterion.is_some() && solve.precision == Precision::F32 {
            return Err(Error::Usage("--precision f32 is for the discounted criterion only".to_owned()));
        }
        Ok(Self { solve, discount, objective, criterion })
    }
}

impl Question {
    /// The model as the question has it, the criterion (none is the discounted sum), and the options of a solve.
    pub fn ask(&self, mdp: Mdp) -> Result<(Mdp, Option<Criterion>, Solve), Error> {
        let mut mdp = self.discount.apply(mdp)?;
        if let Some(objective) = self.objective {
            mdp = mdp.with_objective(objective);
        }
        Ok(match &self.criterion {
            None => (mdp, None, self.solve),
            Some(asked) => {
                let (criterion, accuracy) = asked.plain(&mdp)?;
                (mdp, Some(criterion), Solve { accuracy, ..self.solve })
            }
        })
    }
}
