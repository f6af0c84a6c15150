//! What recipes need, added up, and what is missing of it.
//!
//! Two ingredients are the same if their names are, whatever their case and width (`ﾄﾏﾄ` is `トマト`). Amounts are added up
//! and compared where their units are the same; there the case counts, because `T` is a tablespoon and `t` a teaspoon. What
//! has no amount cannot be counted: of what is needed without one any will do, and what is there without one is enough.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use icu_normalizer::ComposingNormalizerBorrowed;

/// How much of something.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Amount {
    number: Option<f64>,
    unit: Option<String>,
}

impl Amount {
    /// A number of units; one without a unit is of pieces.
    pub(super) fn of(number: Option<f64>, unit: Option<&str>) -> Self {
        let unit = unit.map(str::trim).filter(|unit| !unit.is_empty());
        Amount { number: number.filter(|number| number.is_finite()), unit: unit.map(str::to_owned) }
    }

    /// What amounts of the same unit have in common.
    fn measure(&self) -> String {
        ComposingNormalizerBorrowed::new_nfkc().normalize(self.unit.as_deref().unwrap_or_default()).into_owned()
    }
}

/// What is needed, in the order in which it was first said.
#[derive(Debug, Default)]
pub(super) struct Needs(Vec<Need>);

#[derive(Debug)]
struct Need {
    thing: String,
    measure: String,
    name: String,
    /// How much; `None`: any.
    amount: Option<f64>,
    unit: Option<String>,
    recipes: BTreeSet<String>,
}

/// Something to buy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShoppingLine {
    pub(super) name: String,
    pub(super) amount: Option<f64>,
    pub(super) unit: Option<String>,
    /// The recipe that needs it, if it is one alone.
    pub(super) recipe: Option<String>,
}

impl Needs {
    /// Adds an ingredient of a recipe that is made so many times.
    pub(super) fn add(&mut self, recipe: &str, name: &str, amount: &Amount, times: f64) {
        let (thing, measure) = (folded(name), amount.measure());
        // Nothing is nothing that could be bought.
        if thing.is_empty() {
            return;
        }
        // An amount that is none says as much as no amount.
        let number = amount.number.filter(|number| *number > 0.0).map(|number| number * times);
        let same = |need: &&mut Need| {
            need.thing == thing
                && need.amount.is_some() == number.is_some()
                && (number.is_none() || need.measure == measure)
        };
        match self.0.iter_mut().find(same) {
            Some(need) => {
                need.amount = need.amount.zip(number).map(|(one, other)| one + other);
                need.recipes.insert(recipe.to_owned());
            }
            None => self.0.push(Need {
                name: name.trim().to_owned(),
                amount: number,
                // A unit of nothing counted says nothing.
                unit: amount.unit.clone().filter(|_| number.is_some()),
                recipes: BTreeSet::from([recipe.to_owned()]),
                thing,
                measure,
            }),
        }
    }

    /// What is not there.
    pub(super) fn missing(&self, stock: &Stock) -> Vec<ShoppingLine> {
        let missing = self.0.iter().filter(|need| !stock.enough.contains(&need.thing)).filter_map(|need| {
            let amount = match need.amount {
                Some(amount) => {
                    let there = stock.amounts.get(&(need.thing.clone(), need.measure.clone())).copied();
                    match thousandths(amount).max(1) - thousandths(there.unwrap_or(0.0)) {
                        rest if rest > 0 => Some(decimal(rest)),
                        _ => return None,
                    }
                }
                // Who buys a measured amount of it has some.
                None if stock.some.contains(&need.thing) || self.measures(&need.thing) => return None,
                None => None,
            };
            let recipe = if need.recipes.len() == 1 { need.recipes.first().cloned() } else { None };
            Some(ShoppingLine { name: need.name.clone(), amount, unit: need.unit.clone(), recipe })
        });
        missing.collect()
    }

    fn measures(&self, thing: &str) -> bool {
        self.0.iter().any(|need| need.thing == thing && need.amount.is_some())
    }
}

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Stock {
    amounts: BTreeMap<(String, String), f64>,
    /// Of which there is some.
    some: BTreeSet<String>,
    /// Of which there is some that nobody has counted.
    enough: BTreeSet<String>,
}

impl Stock {
    pub(super) fn add(&mut self, name: &str, amount: &Amount) {
        let thing = folded(name);
        match amount.number {
            None => drop(self.enough.insert(thing)),
            Some(number) if number > 0.0 => {
                *self.amounts.entry((thing.clone(), amount.measure())).or_default() += number;
                self.some.insert(thing);
            }
            Some(_) => {}
        }
    }
}

/// A name without what makes no difference: case, width, and space around and within it.
fn folded(name: &str) -> String {
    let plain = ComposingNormalizerBorrowed::new_nfkc().normalize(name).to_lowercase();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Amounts are exact to a thousandth: what is left of 0.3 after 0.1 and 0.2 is nothing.
fn thousandths(amount: f64) -> i64 {
    // Larger than all amounts together can be is as large as can be.
    (amount * 1_000.0).round() as i64
}

fn decimal(thousandths: i64) -> f64 {
    thousandths as f64 / 1_000.0
}
