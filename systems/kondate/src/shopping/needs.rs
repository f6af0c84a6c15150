//! What recipes need, added up, and what is missing of it.
//!
//! Two ingredients are the same if their names are, whatever their case, width and kana (`ﾄﾏﾄ` is `とまと`). Amounts are added up
//! and compared where their units are the same; there the case counts, because `T` is a tablespoon and `t` a teaspoon. What
//! has no amount cannot be counted: of what is needed without one any will do, and what is there without one is enough.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use crate::names::{compared_name, compared_unit};

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
        compared_unit(self.unit.as_deref().unwrap_or_default())
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

/// Where something is in stock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Fridge,
    /// Bought for the plan, and not in the fridge.
    Bought,
    List,
}

impl Source {
    const ALL: [Source; 3] = [Source::Fridge, Source::Bought, Source::List];

    /// Its name in an answer: why something is left out.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Source::Fridge => "in_fridge",
            Source::Bought => "bought",
            Source::List => "on_list",
        }
    }
}

/// A needed ingredient, or a part of it, that is in stock.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LeftOut {
    pub(super) name: String,
    pub(super) amount: Option<f64>,
    pub(super) unit: Option<String>,
    pub(super) source: Source,
}

impl Needs {
    /// Adds an ingredient of a recipe; `times` multiplies its amount.
    pub(super) fn add(&mut self, recipe: &str, name: &str, amount: &Amount, times: f64) {
        let (thing, measure) = (compared_name(name), amount.normalized_unit());
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

    /// The needed ingredients that are not in stock, and those that are.
    pub(super) fn compare(&self, stock: &Stock) -> (Vec<ShoppingLine>, Vec<LeftOut>) {
        let (mut missing, mut left_out) = (Vec::new(), Vec::new());
        for need in &self.all {
            let mut leave_out = |amount, source| {
                left_out.push(LeftOut { name: need.name.clone(), amount, unit: need.unit.clone(), source });
            };
            if let Some(source) = stock.enough.get(&need.thing) {
                leave_out(need.amount, *source);
                continue;
            }
            let amount = match need.amount {
                Some(amount) => {
                    let there = stock.amounts.get(&(need.thing.clone(), need.measure.clone())).copied();
                    let mut rest = to_thousandths(amount).max(1);
                    for (source, there) in Source::ALL.into_iter().zip(there.unwrap_or_default()) {
                        let part = to_thousandths(there).min(rest);
                        if part > 0 {
                            leave_out(Some(from_thousandths(part)), source);
                            rest -= part;
                        }
                    }
                    if rest == 0 {
                        continue;
                    }
                    Some(from_thousandths(rest))
                }
                None => match stock.some.get(&need.thing) {
                    Some(source) => {
                        leave_out(None, *source);
                        continue;
                    }
                    // A measured need of the same ingredient covers one without an amount.
                    None if self.measured.contains(&need.thing) => continue,
                    None => None,
                },
            };
            let recipe = if need.recipes.len() == 1 { need.recipes.first().cloned() } else { None };
            missing.push(ShoppingLine { name: need.name.clone(), amount, unit: need.unit.clone(), recipe });
        }
        (missing, left_out)
    }

    /// An empty stock. It counts what is needed and nothing else, so that it is small however much there is.
    pub(super) fn stock(&self) -> Stock {
        let amounts = self.all.iter().map(|need| ((need.thing.clone(), need.measure.clone()), [0.0; 3]));
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
    /// By name and normalized unit: of each source.
    amounts: BTreeMap<(String, String), [f64; 3]>,
    /// Names with a known amount, and the first source of it.
    some: BTreeMap<String, Source>,
    /// Names in stock without an amount, and the first source: they cover any need.
    enough: BTreeMap<String, Source>,
}

impl Stock {
    pub(super) fn add(&mut self, name: &str, amount: &Amount, source: Source) {
        let thing = compared_name(name);
        if !self.needed.contains(&thing) {
            return;
        }
        let note = |sources: &mut BTreeMap<String, Source>, thing: &String| {
            sources.entry(thing.clone()).and_modify(|first| *first = source.min(*first)).or_insert(source);
        };
        match amount.number {
            None => note(&mut self.enough, &thing),
            Some(number) if number > 0.0 => {
                note(&mut self.some, &thing);
                if let Some(there) = self.amounts.get_mut(&(thing, amount.normalized_unit())) {
                    there[source as usize] += number;
                }
            }
            Some(_) => {}
        }
    }
}

/// Amounts are rounded to thousandths, so that 0.3 - 0.1 - 0.2 is zero.
fn to_thousandths(amount: f64) -> i64 {
    // The conversion saturates; no sum of amounts is that large.
    (amount * 1_000.0).round() as i64
}

fn from_thousandths(thousandths: i64) -> f64 {
    thousandths as f64 / 1_000.0
}
