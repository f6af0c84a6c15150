//! One story of the product, told over HTTP: whatever is below, the answers are the same.

mod applications;
mod mail;
mod news;
mod people;
mod policy;
mod standing;
mod tasks;
mod trail;
mod work;

use serde_json::Value as Json;

use crate::house::House;

/// Tells all of it; everything that was said is in the house's transcript.
pub(crate) fn tell(house: &House) {
    applications::tell(house);
    people::tell(house);
    work::tell(house);
    mail::tell(house);
    tasks::tell(house);
    news::tell(house);
    policy::tell(house);
    trail::tell(house);
    standing::tell(house);
}

/// One field of each item in a list.
fn each<'l>(list: &'l [Json], field: &str) -> Vec<&'l str> {
    list.iter().map(|item| item[field].as_str().unwrap_or("-")).collect()
}
