//! What recipes need, added up, and what is missing of it.
//!
//! Two ingredients are the same if their names are, whatever their case and width (`ﾄﾏﾄ` is `トマト`). Amounts are added up
//! and compared where their units are the same; there the case counts, because `T` is a tablespoon and `t` a teaspoon. What
//! has no amount cannot be counted: of what is needed without one any will do, and what is there without one is enough.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use icu_normalizer::ComposingNormalizerBorrowed;

/// An amount of an ingredient.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Amount {
    number: Option<f64>,
    unit: Option<String>,
}

impl Amount {
    /// A number of units; one without a unit is of pieces.
    pub(super) fn new(number: Option<f64>, unit: Option<&str>) -> Self {
        let unit = unit.map(str::trim).filter(|unit| !unit.is_empty());
        Amount { number: number.filter(|number| number.is_finite()), unit: unit.map(str::to_owned) }
    }

    /// The normalized unit: amounts with equal ones can be added.
    fn normalized_unit(&self) -> String {
        ComposingNormalizerBorrowed::new_nfkc().normalize(self.unit.as_deref().unwrap_or_default()).into_owned()
    }
}

/// The needed ingredients, in the order in which they were added first.
#[derive(Debug, Default)]
pub(super) struct Needs {
    all: Vec<Need>,
    /// Where each is, by its name and, if it has an amount, the normalized unit.
    positions: BTreeMap<(String, Option<String>), usize>,
    /// Names of which an amount is needed.
    measured: BTreeSet<String>,
}

#[derive(Debug)]
struct Need {
    thing: String,
    measure: String,
    name: String,
    /// `None`: any amount.
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
    /// Adds an ingredient of a recipe; `times` multiplies its amount.
    pub(super) fn add(&mut self, recipe: &str, name: &str, amount: &Amount, times: f64) {
        let (thing, measure) = (normalized_name(name), amount.normalized_unit());
        // Nobody can buy an ingredient without a name.
        if thing.is_empty() {
            return;
        }
        // An amount of zero is treated like no amount.
        let number = amount.number.filter(|number| *number > 0.0).map(|number| number * times);
        if number.is_some() {
            self.measured.insert(thing.clone());
        }
        match self.positions.entry((thing.clone(), number.map(|_| measure.clone()))) {
            Entry::Occupied(at) => {
                let need = &mut self.all[*at.get()];
                need.amount = need.amount.zip(number).map(|(one, other)| one + other);
                need.recipes.insert(recipe.to_owned());
            }
            Entry::Vacant(at) => {
                at.insert(self.all.len());
                self.all.push(Need {
                    name: name.trim().to_owned(),
                    amount: number,
                    // Without a number, a unit has no meaning.
                    unit: amount.unit.clone().filter(|_| number.is_some()),
                    recipes: BTreeSet::from([recipe.to_owned()]),
                    thing,
                    measure,
                });
            }
        }
    }

    /// The needed ingredients that are not in stock.
    pub(super) fn missing(&self, stock: &Stock) -> Vec<ShoppingLine> {
        let missing = self.all.iter().filter(|need| !stock.enough.contains(&need.thing)).filter_map(|need| {
            let amount = match need.amount {
                Some(amount) => {
                    let there = stock.amounts.get(&(need.thing.clone(), need.measure.clone())).copied();
                    match to_thousandths(amount).max(1) - to_thousandths(there.unwrap_or(0.0)) {
                        rest if rest > 0 => Some(from_thousandths(rest)),
                        _ => return None,
                    }
                }
                // A measured need of the same ingredient covers one without an amount.
                None if stock.some.contains(&need.thing) || self.measured.contains(&need.thing) => return None,
                None => None,
            };
            let recipe = if need.recipes.len() == 1 { need.recipes.first().cloned() } else { None };
            Some(ShoppingLine { name: need.name.clone(), amount, unit: need.unit.clone(), recipe })
        });
        missing.collect()
    }

    /// An empty stock. It counts what is needed and nothing else, so that it is small however much there is.
    pub(super) fn stock(&self) -> Stock {
        let amounts = self.all.iter().map(|need| ((need.thing.clone(), need.measure.clone()), 0.0));
        Stock {
            needed: self.all.iter().map(|need| need.thing.clone()).collect(),
            amounts: amounts.collect(),
            ..Stock::default()
        }
    }
}

/// The needed ingredients that are in stock.
#[derive(Debug, Default)]
pub(super) struct Stock {
    needed: BTreeSet<String>,
    /// By name and normalized unit.
    amounts: BTreeMap<(String, String), f64>,
    /// Names with a known amount.
    some: BTreeSet<String>,
    /// Names in stock without an amount: they cover any need.
    enough: BTreeSet<String>,
}

impl Stock {
    pub(super) fn add(&mut self, name: &str, amount: &Amount) {
        let thing = normalized_name(name);
        if !self.needed.contains(&thing) {
            return;
        }
        match amount.number {
            None => drop(self.enough.insert(thing)),
            Some(number) if number > 0.0 => {
                self.some.insert(thing.clone());
                if let Some(there) = self.amounts.get_mut(&(thing, amount.normalized_unit())) {
                    *there += number;
                }
            }
            Some(_) => {}
        }
    }
}

/// A name in lower case, of one width, and with single spaces: names that differ in these only are equal.
fn normalized_name(name: &str) -> String {
    let plain = ComposingNormalizerBorrowed::new_nfkc().normalize(name).to_lowercase();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Amounts are rounded to thousandths, so that 0.3 - 0.1 - 0.2 is zero.
fn to_thousandths(amount: f64) -> i64 {
    // The conversion saturates; no sum of amounts is that large.
    (amount * 1_000.0).round() as i64
}

fn from_thousandths(thousandths: i64) -> f64 {
    thousandths as f64 / 1_000.0
}
