//! [Channels](crate::channels) in JSON.

use std::fmt;
use std::io::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::channels::{
    Bernoulli, Categorical, Channel, Channels, Exponential, FAMILIES, Family, Gamma, Gaussian, Logistic, Mixture,
    Multinomial, Poisson, Regression, StudentT,
};
use crate::covariances::Covariances;
use warpkov_common::io::json::{
    Axis, Dense, Fields, ItemArray, Items, Listed, Number, Object, Path, Table, Tabular, Word,
};
use warpkov_common::names::index;

/// A channel as it is read.
#[derive(Default)]
pub struct ChannelObject {
    family: &'static str,
    columns: Items,
    inputs: Items,
    lags: u32,
    trials: Option<u32>,
    parameters: Vec<(&'static str, Table)>,
}

const COLUMN: &str = "a column: its number, or its name";

impl Fields for ChannelObject {
    const KEYS: &'static [&'static str] = &[
        "family",
        "columns",
        "inputs",
        "lags",
        "trials",
        "probs",
        "rates",
        "shapes",
        "means",
        "covariances",
        "degrees",
        "locations",
        "scales",
        "weights",
        "variances",
        "coefficients",
        "intercepts",
    ];
    const REQUIRED: usize = 2;

    fn read<'de, 'p, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A, path: &'p Path<'p>) -> Result<(), A::Error> {
        match key {
            "family" => self.family = map.next_value_seed(Word(&FAMILIES.map(|family| (family, family))))?,
            "columns" => self.columns = map.next_value_seed(ItemArray::at(path, COLUMN))?,
            "inputs" => self.inputs = map.next_value_seed(ItemArray::at(path, COLUMN))?,
            "lags" => self.lags = map.next_value_seed(Number::new("a number of steps"))?,
            "trials" => self.trials = Some(map.next_value_seed(Number::new("a number of trials"))?),
            key => {
                let name = Self::KEYS.iter().find(|known| **known == key).copied().unwrap_or_default();
                self.parameters.push((name, map.next_value_seed(Tabular::at(path, "a number"))?));
            }
        }
        Ok(())
    }
}

/// A deserializer of a list of channels.
pub struct ChannelList<'p>(pub &'p Path<'p>);

impl<'de> DeserializeSeed<'de> for ChannelList<'_> {
    type Value = Vec<ChannelObject>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ChannelList<'_> {
    type Value = Vec<ChannelObject>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array of objects with family and columns")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(channel) = elements.next_element_seed(Object::at(self.0))? {
            list.push(channel);
        }
        Ok(list)
    }
}

/// The channels of a model with these names of columns and states, without validation of numbers.
///
/// # Errors
/// If a column is unknown, or a parameter is missing, not one of the family, or of another shape.
pub fn channels(list: Vec<ChannelObject>, names: Vec<String>, states: &[String], n: usize) -> Result<Channels, String> {
    let mut resolved = Vec::new();
    for (at, channel) in list.iter().enumerate() {
        let [columns, inputs] = [&channel.columns, &channel.inputs].map(|items| numbers(items, &names));
        let place = |column: String| format!("channels[{at}]: no column is called \"{column}\"");
        resolved.push((columns.map_err(place)?, inputs.map_err(place)?));
    }
    let used = resolved.iter().flat_map(|(columns, inputs)| columns.iter().chain(inputs)).max();
    let dimensions = match names.len() {
        0 => used.map_or(0, |&most| most.saturating_add(1)),
        named => u32::try_from(named).map_err(|_| "too many columns".to_owned())?,
    };
    let channels = list.into_iter().zip(resolved).enumerate().map(|(at, (object, (columns, inputs)))| {
        object.channel(columns, inputs, states, n).map_err(|error| format!("channels[{at}]{error}"))
    });
    Ok(Channels { dimensions, names, list: channels.collect::<Result<_, _>>()? })
}

/// The numbers of columns; an unknown name is an error.
fn numbers(items: &Items, names: &[String]) -> Result<Vec<u32>, String> {
    let number = |item: &Listed| match item {
        Listed::Number(number) => Ok(*number),
        Listed::Name(name) => index(name, names, u32::MAX).ok_or_else(|| name.clone()),
    };
    match items {
        Items::Numbers(numbers) => Ok(numbers.clone()),
        Items::Named(items) => items.iter().map(number).collect(),
    }
}

impl ChannelObject {
    fn channel(mut self, columns: Vec<u32>, inputs: Vec<u32>, states: &[String], n: usize) -> Result<Channel, String> {
        let regression = matches!(self.family, "regression" | "logistic");
        for (key, found, has_it) in [
            ("inputs", !inputs.is_empty(), regression),
            ("lags", self.lags > 0, self.family == "regression"),
            ("trials", self.trials.is_some(), self.family == "multinomial"),
        ] {
            if found && !has_it {
                return Err(format!(": found \"{key}\", which the family {} does not have", self.family));
            }
        }
        let mut shapes = Vec::new();
        let full = self.parameters.iter().any(|(name, table)| {
            *name == "covariances" && matches!(table, Table::Dense(Dense { shape, .. }) if shape.len() == 3)
        });
        let mut take = |name: &'static str| -> Result<Vec<f64>, String> {
            let Some(at) = self.parameters.iter().position(|(key, _)| *key == name) else {
                // Without regressors, there are no coefficients.
                return if name == "coefficients" {
                    Ok(Vec::new())
                } else {
                    Err(format!(": key \"{name}\" is missing"))
                };
            };
            let dense = match self.parameters.swap_remove(at).1 {
                Table::Dense(dense) => dense,
                named => named
                    .dense(name, &[Axis { kind: "state", names: states, length: Some(n) }])
                    .map_err(|error| format!(".{error}"))?,
            };
            shapes.push((name, dense.shape));
            Ok(dense.numbers)
        };
        let family = match self.family {
            "categorical" => Family::Categorical(Categorical { probs: take("probs")? }),
            "bernoulli" => Family::Bernoulli(Bernoulli { probs: take("probs")? }),
            "poisson" => Family::Poisson(Poisson { rates: take("rates")? }),
            "multinomial" => Family::Multinomial(Multinomial { trials: self.trials, probs: take("probs")? }),
            "exponential" => Family::Exponential(Exponential { rates: take("rates")? }),
            "gamma" => Family::Gamma(Gamma { shapes: take("shapes")?, rates: take("rates")? }),
            "gaussian" => {
                let (means, numbers) = (take("means")?, take("covariances")?);
                let covariances = if full { Covariances::Full(numbers) } else { Covariances::Diagonal(numbers) };
                Family::Gaussian(Gaussian { means, covariances })
            }
            "student-t" => Family::StudentT(StudentT {
                degrees: take("degrees")?,
                locations: take("locations")?,
                scales: take("scales")?,
            }),
            "mixture" => Family::Mixture(Mixture {
                weights: take("weights")?,
                means: take("means")?,
                variances: take("variances")?,
            }),
            "regression" => Family::Regression(Regression {
                inputs,
                lags: self.lags,
                coefficients: take("coefficients")?,
                intercepts: take("intercepts")?,
                variances: take("variances")?,
            }),
            _ => Family::Logistic(Logistic {
                inputs,
                coefficients: take("coefficients")?,
                intercepts: take("intercepts")?,
            }),
        };
        if let Some((name, _)) = self.parameters.first() {
            return Err(format!(": found \"{name}\", which the family {} does not have", family.name()));
        }
        let channel = Channel { columns, family };
        let expected = channel.parameters(n.max(1));
        for (name, found) in shapes {
            let of = |shape: &[usize]| shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ");
            let Some(parameter) = expected.iter().find(|parameter| parameter.name == name) else { continue };
            let shape: Vec<usize> = std::iter::once(n).chain(parameter.shape.iter().copied()).collect();
            // One number for each state needs no further brackets.
            let short = found == [n] && parameter.width() == 1;
            if found != shape && !short {
                return Err(format!(".{name} is {}, expected {}", of(&found), of(&shape)));
            }
        }
        Ok(channel)
    }
}

/// Writes the keys of the channels of `n` states.
pub fn write(out: &mut impl Write, channels: &Channels, n: usize) -> io::Result<()> {
    if !channels.names.is_empty() {
        write!(out, ",\n\"columns\": {}", json!(channels.names))?;
    }
    write!(out, ",\n\"channels\": [")?;
    for (at, channel) in channels.list.iter().enumerate() {
        write!(out, "{}\n  {}", if at == 0 { "" } else { "," }, object(channels, channel, n))?;
    }
    write!(out, "\n]")
}

fn object(channels: &Channels, channel: &Channel, n: usize) -> Value {
    let named = |columns: &[u32]| -> Vec<Value> {
        let column = |&column: &u32| match channels.names.get(column as usize) {
            Some(name) => json!(name),
            None => json!(column),
        };
        columns.iter().map(column).collect()
    };
    let mut object = Map::new();
    object.insert("family".to_owned(), json!(channel.family.name()));
    object.insert("columns".to_owned(), named(&channel.columns).into());
    if !channel.family.inputs().is_empty() {
        object.insert("inputs".to_owned(), named(channel.family.inputs()).into());
    }
    if channel.family.lags() > 0 {
        object.insert("lags".to_owned(), json!(channel.family.lags()));
    }
    if let Family::Multinomial(Multinomial { trials: Some(trials), .. }) = &channel.family {
        object.insert("trials".to_owned(), json!(trials));
    }
    for parameter in channel.parameters(n).into_iter().filter(|parameter| parameter.width() > 0) {
        let lengths: Vec<usize> = std::iter::once(n).chain(parameter.shape.iter().copied()).collect();
        object.insert(parameter.name.to_owned(), nested(parameter.numbers, &lengths));
    }
    object.into()
}

/// Nested arrays of this shape.
fn nested(numbers: &[f64], shape: &[usize]) -> Value {
    match shape {
        [] | [_] => json!(numbers),
        [length, inner @ ..] => {
            numbers.chunks(numbers.len() / length).map(|part| nested(part, inner)).collect::<Vec<_>>().into()
        }
    }
}
